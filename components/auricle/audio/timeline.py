"""Compares the times that a container states with the audio decoded from it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Seconds. Times of intact files differ from their audio by less: Matroska rounds to 1 ms, and WMA
# and Opus drop their first frames; 46 ms was the most in 45 combinations of container and codec.
# A shorter gap cuts no word off.
TOLERANCE = 0.1
# Decoders drop their first frames, whose times a container counts; WMA drops 92 ms.
_START = 0.25
# Times that go back by as much belong to another recording, whose times start anew.
_RESTART = 10.0
# A recording whose times go back to its beginning is joined to the one before it.
_NEAR_START = 1.0

Kind = Literal["none", "gap", "drift", "back"]


@dataclass(frozen=True)
class TimeStep:
    """The step that is due before a frame.

    `gap`: that many `seconds` without audio. `drift`: as much silence, as small differences have
    added up. `back`: nothing, but times have gone back by that much.
    """

    kind: Kind = "none"
    seconds: float = 0.0


_NOTHING = TimeStep()


class Timeline:
    """The times of a track's frames, in seconds of its container.

    The recording begins at `origin`; None if that is its first frame.
    """

    def __init__(self, origin: float | None) -> None:
        self._origin = origin
        self._expected: float | None = None  # where the next frame begins if nothing is missing
        self._first = 0.0

    def before(self, at: float | None, seconds: float, position: float) -> TimeStep:
        """Take a frame of `seconds` at time `at`, None if unknown, when the recording has
        `position` seconds. Return the step before it."""
        expected = self._expected
        if at is None:
            self._expected = None if expected is None else expected + seconds
            return _NOTHING
        self._expected = at + seconds
        if expected is None:
            self._begin(at, position)
        origin = self._origin or 0.0
        ahead = at - origin - position
        jump = ahead if expected is None else at - expected
        if ahead > TOLERANCE:
            return TimeStep("gap" if jump > TOLERANCE / 2 else "drift", ahead)
        if jump >= -TOLERANCE:
            return _NOTHING
        anew = at - self._first < _NEAR_START
        if anew or jump < -_RESTART:
            self._origin = at - position
        # Times that went back a little stay ahead, so that a gap that follows is shorter by that.
        return _NOTHING if anew else TimeStep("back", -jump)

    def _begin(self, at: float, position: float) -> None:
        self._first = at
        if self._origin is None or at - self._origin - position <= _START:
            self._origin = at - position
