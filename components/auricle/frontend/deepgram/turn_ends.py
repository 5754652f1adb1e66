"""When a turn ends, from how sure a client wants to be of it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.dialects.certainty import Certainty
from auricle.frontend.listening.turn_wait import TurnWait
from auricle.live_settings import MIN_SILENCE_MS

DEFAULT_THRESHOLD = 0.7  # Deepgram's


@dataclass(frozen=True)
class Thresholds:
    """What a client asked for; without `eager` it is not told before the end of a turn.

    `timeout_ms` of silence end a turn, however sure one is.
    """

    eot: float = DEFAULT_THRESHOLD
    eager: float | None = None
    timeout_ms: int = 5_000


@dataclass(frozen=True)
class TurnEnds:
    """The thresholds as silences, of a server whose own is `min_silence_ms`.

    `judged`: they are those of what a turn model says of a turn.
    """

    thresholds: Thresholds
    min_silence_ms: int
    judged: bool = False

    @property
    def turns(self) -> TurnWait | None:
        """How long is waited by what the model says; None without one."""
        if not self.judged:
            return None
        wanted, speech_ms = self.thresholds, self.min_silence_ms
        return TurnWait(wanted.eot, wanted.timeout_ms, eager=wanted.eager, speech_ms=speech_ms)

    @property
    def eager_ms(self) -> int | None:
        """The silence after which a turn may be over."""
        eager = self.thresholds.eager
        return None if eager is None else self._certainty.silence_ms(eager)

    @property
    def end_ms(self) -> int:
        """The silence after which it is."""
        eot, timeout_ms = self.thresholds.eot, self.thresholds.timeout_ms
        return timeout_ms if eot >= 1.0 else min(timeout_ms, self._certainty.silence_ms(eot))

    @property
    def trigger(self) -> str:
        """Why a turn ends after `end_ms`, in Deepgram's words."""
        return "timeout" if self.end_ms == self.thresholds.timeout_ms else "model"

    @property
    def speech_ends_ms(self) -> int:
        """The silence after which speech gets its final text: a turn ends with nothing less."""
        eager = self.end_ms if self.eager_ms is None else self.eager_ms
        return max(MIN_SILENCE_MS, min(self.min_silence_ms, self.end_ms, eager))

    def confidence(self, silence_ms: float) -> float:
        """Return how sure one may be after such a silence, from 0 to 1."""
        return self._certainty.after(silence_ms)

    @property
    def _certainty(self) -> Certainty:
        return Certainty(DEFAULT_THRESHOLD, self.min_silence_ms)
