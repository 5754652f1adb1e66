"""After which silences a turn ends: a protocol's own, or by what a turn model says. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from auricle.frontend.listening.turn_wait import TurnWait


class Silences(Protocol):
    """After which silences a turn ends."""

    @property
    def eager_ms(self) -> int | None:
        """The silence after which a turn may be over; None if nobody is to be told."""
        ...

    @property
    def end_ms(self) -> int:
        """The silence after which it is."""
        ...

    @property
    def trigger(self) -> str:
        """Why a turn ends after `end_ms`, in the protocol's words."""
        ...

    @property
    def speech_ends_ms(self) -> int:
        """The silence after which speech gets its final text: a turn ends with nothing less."""
        ...

    def confidence(self, silence_ms: float) -> float:
        """Return how sure one may be after such a silence, from 0 to 1."""
        ...


class TurnEnds(Silences, Protocol):
    """The same, unless a turn model says when."""

    @property
    def turns(self) -> TurnWait | None:
        """How long is waited by what the model says; None where it is not asked."""
        ...


def silences(ends: TurnEnds, probability: float) -> Silences:
    """Return those of one pause, which ends the turn with this probability, if a model says so."""
    return ends if ends.turns is None else _Judged(ends.turns, probability)


def speech_ends(ends: TurnEnds) -> TurnWait | int:
    """Return what speech gets its final text after: a turn model's wait, or a silence in ms."""
    return ends.turns or ends.speech_ends_ms


@dataclass(frozen=True)
class _Judged:
    """The silences of one pause: the turn is over with this `probability`."""

    wait: TurnWait
    probability: float

    @property
    def eager_ms(self) -> int | None:
        """At once, if the client is to know that the turn may be over."""
        return 0 if self.wait.may_be_over(self.probability) else None

    @property
    def end_ms(self) -> int:
        """The silence that ends the turn."""
        return self.wait.after(self.probability)

    @property
    def trigger(self) -> str:
        """Why it does, in Deepgram's words."""
        return "timeout" if self.end_ms == self.wait.longest_ms else "model"

    @property
    def speech_ends_ms(self) -> int:
        """The silence after which speech gets its final text."""
        return self.wait.speech_after(self.probability)

    def confidence(self, _silence_ms: float) -> float:
        """Return what the model has said, which does not depend on the silence that followed."""
        return round(self.probability, 3)
