"""What load does to cadence and to newcomers. Pure but for the clock.

In this order, as chunks take longer: sessions that begin get a longer cadence, and are
told so; no more sessions are let in; and should chunks still take too long, everybody's
cadence stretches until they do not.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from auricle.errors import Overloaded
from auricle.processor.load import ChunkLoad

# Levels of `ChunkLoad`. Newcomers cost less from here on …
_STRETCH_NEWCOMERS = 0.7
# … and are refused from here on: what was let in lately is not felt in full yet.
_REFUSE = 0.85
# (level, grid points between two decodes) of running sessions from there on.
_STRIDES = ((3.0, 4), (2.0, 3), (1.25, 2))
# A session is felt in full once it has had several chunks in `ChunkLoad`'s window.
_FELT_AFTER_SECONDS = 4.0
# Sessions let in within that time, as a share of those there are: far from the limit, near it.
_GROWTH = (0.25, 0.1)


class Pacing:
    """Stretches one session's cadence when chunks take too long.

    A session never has more than one decode under way, so load already makes it
    skip grid points; this spreads the skipping.
    """

    def __init__(self, load: ChunkLoad) -> None:
        self._load = load
        self._refused = False

    @property
    def stride(self) -> int:
        """Grid points from one decode to the next, at least 1."""
        if self._refused:
            return _STRIDES[0][1]
        level = self._load.level
        return next((stride for from_level, stride in _STRIDES if level >= from_level), 1)

    def decoded(self) -> None:
        """A decode was answered."""
        self._refused = False

    def refused(self) -> None:
        """A decode found no slot."""
        self._refused = True


@dataclass(frozen=True)
class AdmissionLimits:
    """`most` sessions, live or not; of live ones `assured` may begin as fast as they like."""

    most: int
    assured: int


class Admission:
    """Whether one more live session can be served without spoiling those there are."""

    def __init__(
        self,
        limits: AdmissionLimits,
        load: ChunkLoad,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._load = load
        self._clock = clock
        self._lately: deque[float] = deque()

    def check_room(self, sessions: int) -> None:
        """Raise Overloaded if there are as many sessions as there may be."""
        if sessions >= self._limits.most:
            raise Overloaded(f"all {self._limits.most} sessions are in use; try again")

    def admit(self, sessions: int) -> None:
        """One more beside so many. Raises Overloaded saying why, and when to come again."""
        self.check_room(sessions)
        level, now = self._load.level, self._clock()
        while self._lately and self._lately[0] < now - _FELT_AFTER_SECONDS:
            self._lately.popleft()
        if level >= _REFUSE:
            raise Overloaded(
                f"95% of chunks take up to {self._load.seconds * 1000:.0f} ms; "
                "one more session would spoil those that are running",
                _FELT_AFTER_SECONDS,
            )
        growth = _GROWTH[level >= _REFUSE / 2]
        if sessions >= self._limits.assured and len(self._lately) >= max(1, growth * sessions):
            raise Overloaded(
                f"{len(self._lately)} sessions beside {sessions} began just now; "
                "whether there is room for more is known in a moment",
                _FELT_AFTER_SECONDS / 2,
            )
        self._lately.append(now)

    @property
    def stretch(self) -> int:
        """What the cadence of a session that begins now is multiplied by."""
        return 2 if self._load.level >= _STRETCH_NEWCOMERS else 1
