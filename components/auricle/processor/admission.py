"""Admission of live sessions by how long chunks take. Pure but for the clock.

As chunks take longer, new sessions first get a longer cadence, and are told so; then they
are refused. What happens to running sessions if chunks still take too long: `pacing.py`.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auricle.errors import Overloaded
from auricle.load.chunk_load import WINDOW_SECONDS, ChunkLoad
from auricle.messages import ADMISSION_SECONDS
from auricle.processor.crowd import Crowd

# Levels of `ChunkLoad` from which on new sessions get a longer cadence, and are refused. Below
# 1, as the load of sessions admitted lately is not measured in full yet.
_LENGTHEN_CADENCE = 0.55
_REFUSE = 0.65
# A session's load is measured in full once it has had several chunks in `ChunkLoad`'s window.
_MEASURED_AFTER_SECONDS = 4.0
# A number of sessions that was carried lately may be reached again at once.
_REMEMBERED_SECONDS = 30.0
# (level, unmeasured sessions as a share of the measured ones) from that level on: far from the
# limit more are admitted at a time than near it.
_GROWTH = ((0.25, 0.1), (0.0, 0.25))
# Retry times spread refused clients so that about so many retry per second: each retry costs a
# handshake, at the expense of running sessions.
_RETRIES_PER_SECOND = 2.0
_REFUSALS_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 30.0
# Of one client's refusals, and of its sessions that have not begun, so many count for others.
_REFUSED_SHARE, _EXPECTED_SHARE = 4, 2
# More events of one client are not counted: it then waits longest anyway.
_MOST_OF_CLIENT = 64


@dataclass(frozen=True)
class AdmissionLimits:
    """Bounds on sessions.

    There may be `most` sessions of any kind. The first `assured` live ones are admitted at
    any rate.
    """

    most: int
    assured: int


class Admission:
    """Decides whether one more live session fits beside the running ones.

    The owner reports the begin and the end of every live session with `live`. Not thread-safe:
    it lives on the event loop.
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
        # Of sessions not begun yet: the time of admission and the client.
        self._admitted: dict[str, tuple[float, str]] = {}
        self._counts: deque[tuple[float, int]] = deque()  # (time, live sessions from then on)
        self._refused_lately = Crowd(_REFUSED_SHARE, _MOST_OF_CLIENT)
        self._waiting = Crowd(_MOST_OF_CLIENT, _MOST_OF_CLIENT)

    def check_room(self, sessions: int) -> None:
        """Raise Overloaded if `sessions`, of any kind, are as many as there may be."""
        if sessions >= self._limits.most:
            raise Overloaded(f"all {self._limits.most} sessions are in use; try again")

    @contextmanager
    def live(self, name: str) -> Iterator[None]:
        """Count a live session, which may have been admitted as `name`, while the block runs."""
        self.withdraw(name)
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def withdraw(self, name: str) -> None:
        """The session admitted as `name` is not expected any more, if it was."""
        self._admitted.pop(name, None)

    def admit(self, name: str, client: str = "", *, resumes: bool = False) -> None:
        """Admit one more live session of `client`; one that `resumes` if only there is room.

        Raises Overloaded with the reason and a retry time.
        """
        now = self._clock()
        sessions = self._sessions(now, client)
        self.check_room(sessions)
        if not resumes:
            self._check_load(now, sessions, client)
        self._admitted[name] = (now, client)

    def _check_load(self, now: float, sessions: int, client: str) -> None:
        """Raise Overloaded unless the load allows one more session of `client`."""
        level = self._level(now)
        if level >= _REFUSE:
            raise self._refused(
                client,
                f"95% of chunks take up to {self._load.seconds * 1000:.0f} ms; "
                "one more session would make the running ones late",
            )
        measured = self._measured(now)
        growth = next(share for from_level, share in _GROWTH if level >= from_level)
        if sessions >= max(self._limits.assured, measured + max(1, int(growth * measured))):
            raise self._refused(
                client,
                f"the load of {sessions - measured} of {sessions} sessions is not measured yet; "
                "try again in a moment",
            )

    def _refused(self, client: str, reason: str) -> Overloaded:
        """A refusal; the more clients were refused lately, the later it lets them try again.

        A client that comes again and again waits long itself, and others hardly longer.
        """
        now = self._clock()
        self._refused_lately.add(client, now + _REFUSALS_SECONDS)
        crowd = self._refused_lately.size(now, client) / _RETRIES_PER_SECOND
        retry = min(max(_MEASURED_AFTER_SECONDS / 2, crowd), _LONGEST_RETRY_SECONDS)
        self._waiting.add(client, now + retry)
        return Overloaded(reason, retry)

    @property
    def waiting(self) -> int:
        """Refused clients whose retry time has not come yet."""
        return self._waiting.size(self._clock())

    def _sessions(self, now: float, client: str = "") -> int:
        """Live sessions, and admitted ones that may still begin, as `client` sees them.

        Of another client's that have not begun, a few count: connecting costs nothing, so
        however often one client does, it must not keep others out.
        """
        for name, (when, _) in tuple(self._admitted.items()):  # the oldest first
            if when >= now - ADMISSION_SECONDS:
                break
            del self._admitted[name]
        expected = Counter(of for _, of in self._admitted.values())
        counted = (n if of == client else min(n, _EXPECTED_SHARE) for of, n in expected.items())
        return self._live + sum(counted)

    def _level(self, now: float) -> float:
        """The load's level, scaled to the sessions that are still there.

        The times of recent chunks describe the sessions of that time. If half of them have
        left, half of the level counts; if all have, none of it.
        """
        average = self._average(now)
        if average == 0:
            return 0.0
        return self._load.level * min(1.0, self._sessions(now) / average)

    def _average(self, now: float) -> float:
        """The mean number of live sessions over the load's window."""
        begin, until, area = now - WINDOW_SECONDS, now, 0.0
        for when, count in reversed(self._counts):
            area += count * max(0.0, until - max(when, begin))
            until = when
            if until <= begin:
                break
        return area / WINDOW_SECONDS

    def _count(self, change: int) -> None:
        self._live += change
        self._counts.append((self._clock(), self._live))

    def _measured(self, now: float) -> int:
        """The largest recent number of live sessions that was there long enough to be measured."""
        while len(self._counts) > 1 and self._counts[1][0] < now - _REMEMBERED_SECONDS:
            self._counts.popleft()
        return max(
            (n for when, n in self._counts if when <= now - _MEASURED_AFTER_SECONDS), default=0
        )

    @property
    def chunk_multiple(self) -> int:
        """The factor on the cadence of a session that begins now."""
        return 2 if self._level(self._clock()) >= _LENGTHEN_CADENCE else 1
