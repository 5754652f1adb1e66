"""When a turn ends, from how sure a client wants to be of it. No I/O.

Nothing here looks at what was said: how sure one may be that a turn is over is a function of how
long nobody has spoken. It is 0.7, Deepgram's default threshold, after the silence that ends speech
on the other ways in (`Frontend.min_silence_ms`), and goes towards 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from auricle.settings import MIN_SILENCE_MS

DEFAULT_THRESHOLD = 0.7


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
    """The thresholds as silences, of a server whose own is `min_silence_ms`."""

    thresholds: Thresholds
    min_silence_ms: int

    @property
    def eager_ms(self) -> int | None:
        """The silence after which a turn may be over."""
        eager = self.thresholds.eager
        return None if eager is None else self._silence_ms(eager)

    @property
    def end_ms(self) -> int:
        """The silence after which it is."""
        eot, timeout_ms = self.thresholds.eot, self.thresholds.timeout_ms
        return timeout_ms if eot >= 1.0 else min(timeout_ms, self._silence_ms(eot))

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
        return round(silence_ms / (silence_ms + self._half_ms), 3)

    def _silence_ms(self, threshold: float) -> int:
        return max(MIN_SILENCE_MS, round(self._half_ms * threshold / (1 - threshold)))

    @property
    def _half_ms(self) -> float:
        return self.min_silence_ms * (1 - DEFAULT_THRESHOLD) / DEFAULT_THRESHOLD
