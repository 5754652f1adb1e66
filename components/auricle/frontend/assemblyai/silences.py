"""When a turn ends, in AssemblyAI's words. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.dialects.certainty import Certainty
from auricle.frontend.listening.turn_wait import LOOK_MS, TurnWait
from auricle.live_settings import MIN_SILENCE_MS

# AssemblyAI's defaults.
THRESHOLD, MOST_MS = 0.4, 1_280


@dataclass(frozen=True)
class TurnSilences:
    """A turn ends once one may be as sure of it as `threshold`, but not after less than `least_ms`
    of silence, and after `most_ms` however sure one is.

    `min_silence_ms` is the silence that ends speech on the other ways in. `judged`: how sure one
    may be is what a turn model says.
    """

    min_silence_ms: int
    threshold: float = THRESHOLD
    least_ms: int = 0
    most_ms: int = MOST_MS
    judged: bool = False

    @property
    def turns(self) -> TurnWait | None:
        """How long is waited by what the model says; None where it is not asked."""
        if not self.judged or self.most_ms <= LOOK_MS:  # the turn ends before it could answer
            return None
        least_ms, speech_ms = self.least_ms, self.min_silence_ms
        return TurnWait(self.threshold, self.most_ms, least_ms=least_ms, speech_ms=speech_ms)

    @property
    def eager_ms(self) -> int | None:
        """The protocol has no word for a turn that may be over."""
        return None

    @property
    def end_ms(self) -> int:
        """The silence that ends a turn."""
        sure_ms = self.most_ms
        if self.threshold < 1.0:
            sure_ms = min(sure_ms, self._certainty.silence_ms(self.threshold))
        return max(MIN_SILENCE_MS, self.least_ms, sure_ms)

    @property
    def trigger(self) -> str:
        """The protocol does not say why a turn ends."""
        return ""

    @property
    def speech_ends_ms(self) -> int:
        """The silence after which speech gets its final text, which is an utterance."""
        return min(self.min_silence_ms, self.end_ms)

    def confidence(self, silence_ms: float) -> float:
        """Return how sure one may be after such a silence, from 0 to 1."""
        return self._certainty.after(silence_ms)

    @property
    def _certainty(self) -> Certainty:
        return Certainty(THRESHOLD, self.min_silence_ms)
