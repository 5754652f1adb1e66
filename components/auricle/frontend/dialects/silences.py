"""After which silences a turn ends: by their length alone, or by what a turn model says. No I/O.

Without a turn model nothing here looks at what was said: how sure one may be that a turn is over is
a function of how long nobody has spoken. It has a protocol's default threshold after the silence
that ends speech in the other protocols (`Frontend.min_silence_ms`), and goes towards 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.listening.turn_wait import LOOK_MS, Silence, TurnWait
from auricle.live_settings import MIN_SILENCE_MS


@dataclass(frozen=True)
class Pause:
    """After which silences of one pause what holds of its turn; confidences are from 0 to 1.

    After `eager_ms` the turn may be over (None if the client is not to be told), after `end_ms` it
    is: because the silence lasted as long as any may, if it `timed_out`. After `speech_ms` speech
    gets its final text: a turn ends with nothing less.
    """

    eager_ms: int | None
    end_ms: int
    speech_ms: int
    timed_out: bool
    eager_confidence: float
    end_confidence: float


@dataclass(frozen=True)
class EndpointingPolicy:
    """A turn ends once one may be as sure of it as `threshold`, but not after less than `least_ms`
    of silence, and after `longest_ms` however sure one is.

    One may be as sure as `usual`, the protocol's default, after `min_silence_ms`. With `eager` the
    client is told once one may be so sure. `judged`: how sure one may be is what a turn model says.
    """

    threshold: float
    longest_ms: int
    usual: float
    min_silence_ms: int
    eager: float | None = None
    least_ms: int = 0
    judged: bool = False

    @property
    def turns(self) -> TurnWait | None:
        """How long is waited by what the model says; None where it is not asked."""
        if not self.judged or self.longest_ms <= LOOK_MS:  # the turn ends before it could answer
            return None
        return TurnWait(
            self.threshold, self.longest_ms, self.least_ms, self.eager, self.min_silence_ms
        )

    @property
    def silence(self) -> Silence:
        """What speech gets its final text after."""
        return self.turns or self.speech_ms

    @property
    def eager_ms(self) -> int | None:
        """The silence after which a turn may be over."""
        return None if self.eager is None else self._silence_ms(self.eager)

    @property
    def end_ms(self) -> int:
        """The silence after which it is."""
        sure_ms = self.longest_ms
        if self.threshold < 1.0:
            sure_ms = min(sure_ms, self._silence_ms(self.threshold))
        return max(MIN_SILENCE_MS, self.least_ms, sure_ms)

    @property
    def speech_ms(self) -> int:
        """The silence after which speech gets its final text."""
        eager_ms = self.end_ms if self.eager_ms is None else self.eager_ms
        return max(MIN_SILENCE_MS, min(self.min_silence_ms, self.end_ms, eager_ms))

    def confidence(self, silence_ms: float) -> float:
        """Return how sure one may be after such a silence."""
        return round(silence_ms / (silence_ms + self._half_ms), 3)

    def pause(self, probability: float) -> Pause:
        """Return the silences of a pause. A model says with which probability the turn is over."""
        end_ms, eager_ms = self.end_ms, self.eager_ms
        if (wait := self.turns) is None:
            sure = 0.0 if eager_ms is None else self.confidence(eager_ms)
            timed_out = end_ms == self.longest_ms
            return Pause(eager_ms, end_ms, self.speech_ms, timed_out, sure, self.confidence(end_ms))
        sure, end_ms = round(probability, 3), wait.after(probability)
        return Pause(
            0 if wait.may_be_over(probability) else None,
            end_ms,
            wait.speech_after(probability),
            end_ms == wait.longest_ms,
            sure,
            sure,
        )

    def _silence_ms(self, wanted: float) -> int:
        """Return the silence after which one may be so sure; `wanted` is below 1."""
        return max(MIN_SILENCE_MS, round(self._half_ms * wanted / (1 - wanted)))

    @property
    def _half_ms(self) -> float:
        return self.min_silence_ms * (1 - self.usual) / self.usual
