"""Admission of live sessions, up to the number that the machine is known to carry.

`adaptive_limit.py` learns that number; `fair_shares.py` says who comes first. Pure but for the
clock.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auricle.errors import Overloaded
from auricle.load.chunk_load import TAIL_SECONDS, ChunkLoad
from auricle.messages.sessions import ADMISSION_SECONDS
from auricle.processor.adaptive_limit import AdaptiveLimit
from auricle.processor.crowd import Crowd
from auricle.processor.fair_shares import FairShares, Party

_LOOK_SECONDS = 0.5
# A session that has not spoken for so long costs nothing, and its place is lent to others.
_SILENT_SECONDS = 10.0
# Retry times spread refused clients so that about so many retry per second: each retry costs a
# handshake, at the expense of running sessions.
_RETRIES_PER_SECOND = 2.0
_REFUSALS_SECONDS = 10.0
_SHORTEST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 2.0, 30.0
# Of one client's refusals, and of its sessions that have not begun, so many count for others.
_REFUSED_SHARE, _EXPECTED_SHARE = 4, 2
# More events of one client are not counted: it then waits longest anyway.
_MOST_OF_CLIENT = 64
# Whose session it is that was not admitted here: it has moved from another processor.
_UNKNOWN = Party("")


@dataclass
class _Live:
    speaking: Callable[[], bool]
    spoke_at: float  # or when it began
    has_spoken: bool = False


class Admission:
    """Decides whether one more live session fits beside the running ones.

    The owner reports the begin and the end of every live session with `live`, and calls `look`
    often. Not thread-safe: it lives on the event loop.
    """

    def __init__(
        self,
        most: int,
        load: ChunkLoad,
        limit: AdaptiveLimit | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """There may be `most` sessions of any kind; without a `limit`, as many live ones."""
        self._most = most
        self._load = load
        self._limit = limit
        self._clock = clock
        self._live: dict[object, _Live] = {}
        # Of sessions not begun yet: the time of admission and who was admitted.
        self._admitted: dict[str, tuple[float, Party]] = {}
        self._shares = FairShares()
        self._looked = clock()
        self._active = 0
        self._counts: deque[tuple[float, int]] = deque()  # (time, speakers from then on)
        self._refused_lately = Crowd(_REFUSED_SHARE, _MOST_OF_CLIENT)
        self._waiting = Crowd(_MOST_OF_CLIENT, _MOST_OF_CLIENT)

    def check_room(self, sessions: int) -> None:
        """Raise Overloaded if `sessions`, of any kind, are as many as there may be."""
        if sessions >= self._most:
            raise Overloaded(f"all {self._most} sessions are in use; try again")

    @contextmanager
    def live(self, name: str, speaking: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Count a live session, which may have been admitted as `name`, while the block runs."""
        _, party = self._admitted.pop(name, (0.0, _UNKNOWN))
        key = object()
        self._live[key] = _Live(speaking, self._clock())
        self._shares.begin(party)
        self._count()
        try:
            yield
        finally:
            del self._live[key]
            self._shares.end(party)
            self._count()

    def withdraw(self, name: str) -> None:
        """The session admitted as `name` is not expected any more, if it was."""
        self._admitted.pop(name, None)

    def admit(
        self, name: str, client: str = "", *, priority: int = 0, resumes: bool = False
    ) -> None:
        """Admit one more live session of `client`; one that `resumes` if only there is room.

        Raises Overloaded with the reason and a retry time.
        """
        self.look()
        now, party = self._clock(), Party(client, priority)
        expected = self._expected(now, client)
        self.check_room(len(self._live) + expected)
        taken = self._active + expected + self._shares.kept_from(party, now)
        # Whatever was learnt, one session on an empty machine harms nobody.
        if not resumes and taken >= max(1, self.limit):
            raise self._refused(party)
        self._shares.taken(party)
        self._admitted[name] = (now, party)

    @property
    def limit(self) -> int:
        """How many live sessions may speak at once."""
        return self._most if self._limit is None else min(self._most, self._limit.admitted)

    @property
    def active(self) -> int:
        """Live sessions that have spoken lately, or have just begun."""
        return self._active

    @property
    def waiting(self) -> int:
        """Refused clients whose retry time has not come yet."""
        return self._waiting.size(self._clock())

    def look(self) -> None:
        """Learn from the latest chunks; costs nothing if it did so a moment ago."""
        now = self._clock()
        passed = now - self._looked
        if passed < _LOOK_SECONDS:
            return
        self._looked = now
        for session in self._live.values():
            if session.speaking():
                session.spoke_at, session.has_spoken = now, True
        self._count()
        if self._limit is not None:
            self._limit.look(self._average(now), self._load.tail, passed)

    def _refused(self, party: Party) -> Overloaded:
        """A refusal; the more clients were refused lately, the later it lets them try again.

        A client that comes again and again waits long itself, and others hardly longer. One that
        has less than its share is to come again soon, and finds a place kept.
        """
        now, client = self._clock(), party.client
        self._refused_lately.add(client, now + _REFUSALS_SECONDS)
        crowd = self._refused_lately.size(now, client) / _RETRIES_PER_SECOND
        retry = min(max(_SHORTEST_RETRY_SECONDS, crowd), _LONGEST_RETRY_SECONDS)
        if self._shares.keep(party, now):
            retry = _SHORTEST_RETRY_SECONDS
        self._waiting.add(client, now + retry)
        return Overloaded(
            f"this server carries {self.limit} live sessions at present, and has as many; "
            "one more would make their text late",
            retry,
        )

    def _expected(self, now: float, client: str) -> int:
        """Admitted sessions that may still begin, as `client` sees them.

        Of another client's a few count: connecting costs nothing, so however often one client
        does, it must not keep others out.
        """
        for name, (when, _) in tuple(self._admitted.items()):  # the oldest first
            if when >= now - ADMISSION_SECONDS:
                break
            del self._admitted[name]
        expected = Counter(party.client for _, party in self._admitted.values())
        return sum(n if of == client else min(n, _EXPECTED_SHARE) for of, n in expected.items())

    def _average(self, now: float) -> float:
        """The mean number of speakers while the load's tail was measured.

        Who has not spoken yet made nothing late.
        """
        begin, until, area = now - TAIL_SECONDS, now, 0.0
        for when, count in reversed(self._counts):
            area += count * max(0.0, until - max(when, begin))
            until = when
            if until <= begin:
                break
        return area / TAIL_SECONDS

    def _count(self) -> None:
        now = self._clock()
        active = [s for s in self._live.values() if s.spoke_at >= now - _SILENT_SECONDS]
        self._active = len(active)
        speakers = sum(s.has_spoken for s in active)
        if not self._counts or self._counts[-1][1] != speakers:
            self._counts.append((now, speakers))
        while len(self._counts) > 1 and self._counts[1][0] < now - TAIL_SECONDS:
            self._counts.popleft()
