"""What load does to cadence and to newcomers. Pure but for the clock.

In this order, as chunks take longer: sessions that begin get a longer cadence, and are
told so; no more sessions are let in; and should chunks still take too long, everybody's
cadence stretches until they do not.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auricle.errors import Overloaded
from auricle.processor.load import ChunkLoad

# Levels of `ChunkLoad`. Newcomers cost less from here on …
_STRETCH_NEWCOMERS = 0.55
# … and are refused from here on: what was let in lately is not felt in full yet.
_REFUSE = 0.65
# (level, grid points between two decodes) of running sessions from there on.
_STRIDES = ((3.0, 4), (2.0, 3), (1.25, 2))
# A session is felt in full once it has had several chunks in `ChunkLoad`'s window.
_FELT_AFTER_SECONDS = 4.0
# As many sessions as lately have been borne: who leaves may be followed by another.
_REMEMBERED_SECONDS = 30.0
# (level, sessions not felt yet as a share of those that are) from there on: a crowd comes
# in faster far from the limit than near it.
_GROWTH = ((0.25, 0.1), (0.0, 0.25))
# Who is refused is told to come again so late that a crowd asks about so often (per second):
# each asking costs a handshake, which those that are running would pay for.
_ASKING_PER_SECOND = 2.0
_ASKED_WITHIN_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 30.0
# Who was let in and has not begun by then does not come.
_COMING_SECONDS = 2.0


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
    """`most` sessions of any kind; of live ones `assured` may begin as fast as they like."""

    most: int
    assured: int


class Admission:
    """Whether one more live session can be served without spoiling those there are.

    It is told of every live session's begin and end.
    """

    def __init__(
        self,
        limits: AdmissionLimits,
        load: ChunkLoad,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._load = load
        self._clock = clock
        self._live = 0
        self._coming: deque[float] = deque()  # when let in; not begun yet
        self._counts: deque[tuple[float, int]] = deque()  # (when, live sessions from then on)
        self._refusals: deque[float] = deque()  # when
        self._away: deque[float] = deque()  # when who was refused is to come again

    def check_room(self, sessions: int) -> None:
        """Raise Overloaded if there are as many sessions of any kind as there may be."""
        if sessions >= self._limits.most:
            raise Overloaded(f"all {self._limits.most} sessions are in use; try again")

    @contextmanager
    def live(self) -> Iterator[None]:
        """A live session, from its begin to its end."""
        if self._coming:
            self._coming.popleft()
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def admit(self) -> None:
        """Let one more live session in. Raises Overloaded saying why, and when to come again."""
        now, level = self._clock(), self._load.level
        while self._coming and self._coming[0] < now - _COMING_SECONDS:
            self._coming.popleft()
        sessions = self._live + len(self._coming)
        self.check_room(sessions)
        if level >= _REFUSE:
            raise self._refused(
                f"95% of chunks take up to {self._load.seconds * 1000:.0f} ms; "
                "one more session would spoil those that are running",
            )
        felt = self._felt(now)
        growth = next(share for from_level, share in _GROWTH if level >= from_level)
        if sessions >= max(self._limits.assured, felt + max(1, int(growth * felt))):
            raise self._refused(
                f"of {sessions} sessions only {felt} are felt yet; "
                "whether there is room for more is known in a moment",
            )
        self._coming.append(now)

    def _refused(self, reason: str) -> Overloaded:
        """With the time to come again: the longer, the more were refused lately."""
        now = self._clock()
        self._refusals.append(now)
        while self._refusals[0] < now - _ASKED_WITHIN_SECONDS:
            self._refusals.popleft()
        crowd = len(self._refusals) / _ASKING_PER_SECOND
        retry = min(max(_FELT_AFTER_SECONDS / 2, crowd), _LONGEST_RETRY_SECONDS)
        self._away.append(now + retry)
        return Overloaded(reason, retry)

    @property
    def waiting(self) -> int:
        """Clients that were refused and have not been told to come again yet."""
        now = self._clock()
        self._away = deque(at for at in self._away if at > now)
        return len(self._away)

    def _count(self, change: int) -> None:
        self._live += change
        self._counts.append((self._clock(), self._live))

    def _felt(self, now: float) -> int:
        """The most live sessions there have been at a time, long enough to show in the load."""
        while len(self._counts) > 1 and self._counts[1][0] < now - _REMEMBERED_SECONDS:
            self._counts.popleft()
        return max((n for when, n in self._counts if when <= now - _FELT_AFTER_SECONDS), default=0)

    @property
    def stretch(self) -> int:
        """What the cadence of a session that begins now is multiplied by."""
        return 2 if self._load.level >= _STRETCH_NEWCOMERS else 1
