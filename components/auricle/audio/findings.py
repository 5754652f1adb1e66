"""Missing audio of a decoded recording, in words for the client. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auricle.audio.timeline import TOLERANCE

# What becomes of a recording that is damaged within: an error, or the text of what can be decoded.
OnDamage = Literal["reject", "keep"]


@dataclass
class _Places:
    """Losses of one kind: their number, the first one's place, and the seconds of all."""

    count: int = 0
    first: float = 0.0
    seconds: float = 0.0

    def add(self, at: float, seconds: float) -> None:
        if not self.count:
            self.first = at
        self.count += 1
        self.seconds += seconds

    def __str__(self) -> str:
        if self.count == 1:
            return f"at {self.first:.1f} s"
        return f"in {self.count} places, the first at {self.first:.1f} s"


# The share of a recording that may be filled up in steps below the tolerance: clocks of recorders
# differ by less than 0.1 %.
_DRIFT = 0.002
_HEARD_APART = 0.5  # seconds
_MOST_WARNINGS = 12


class Findings:
    """Missing audio of a recording, and choices made in it, for the client.

    With `keep_damaged` damage is reported here, and is not an error.
    """

    def __init__(self, *, keep_damaged: bool = False) -> None:
        self.keep_damaged = keep_damaged
        self._gaps, self._damage, self._back = _Places(), _Places(), _Places()
        self._faults, self._apart = _Places(), _Places()
        self._drift = 0.0
        self._others: list[str] = []
        self._missing = False

    def gap(self, at: float, seconds: float) -> None:
        """The container has no audio for that long."""
        self._gaps.add(at, seconds)

    def damage(self, at: float, seconds: float) -> None:
        """Audio was lost, that long as far as is known."""
        self._damage.add(at, seconds)

    def fault(self, at: float) -> None:
        """The decoder has reported an error without losing the frame."""
        self._faults.add(at, 0.0)

    def drift(self, seconds: float) -> None:
        self._drift += seconds

    def back(self, at: float, seconds: float) -> None:
        """The container's times have gone back."""
        self._back.add(at, seconds)

    def louder_channel(self, at: float, seconds: float) -> None:
        """The channels have cancelled each other, and the louder one was used."""
        self._apart.add(at, seconds)

    def missing(self, warning: str) -> None:
        """Add a warning on audio that is not in the file, or was not decoded; see `other`."""
        self._missing = True
        self.other(warning)

    def other(self, warning: str) -> None:
        """Add a warning: printable ASCII, which does not name the file."""
        if len(self._others) < _MOST_WARNINGS:
            self._others.append(warning)

    @property
    def incomplete(self) -> bool:
        """Whether audio was lost. A gap in the container's times may be a pause."""
        return self._missing or self._damage.count > 0

    def warnings(self, seconds: float) -> tuple[str, ...]:
        """Return the warnings on a recording of that length."""
        found = []
        if self._damage.count:
            known = self._damage.seconds >= TOLERANCE
            lost = f"{self._damage.seconds:.1f} s are" if known else "an unknown part is"
            found.append(f"the recording is damaged {self._damage}: {lost} missing")
        if self._gaps.count:
            silent = f"{self._gaps.seconds:.1f} s"
            found.append(f"{silent} have no audio, {self._gaps}: not recorded, or lost")
        if self._drift > max(TOLERANCE, _DRIFT * seconds):
            found.append(f"{self._drift:.1f} s have no audio, spread over the recording")
        if self._back.count:
            found.append(
                f"times go back {self._back}; the following audio is put after the audio before it"
            )
        if self._faults.count:
            found.append(f"the decoder found errors {self._faults}: words may be wrong there")
        if self._apart.seconds >= _HEARD_APART:
            found.append(
                f"channels cancel each other for {self._apart.seconds:.1f} s, {self._apart}: "
                "the louder one is transcribed there"
            )
        found += dict.fromkeys(self._others)
        return tuple(found[:_MOST_WARNINGS])
