"""Admission of live sessions, up to the number that the machine is known to carry.

`adaptive_limit.py` learns that number; `fair_shares.py` says who comes first. Pure but for the
clock.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auricle.core.errors import Overloaded
from auricle.load.chunk_load import TAIL_SECONDS, ChunkLoad, Tail
from auricle.protocol.sessions import ADMISSION_SECONDS

# Counts what clients did lately, so that one client alone is no crowd. Pure.

_MOST_EVENTS = 50_000


class Crowd:
    """Events that count until a given time. For others, a client has at most `share` of them.

    For itself it has all, up to `most`. Counting costs the same however many there are.
    """

    def __init__(self, share: int, most: int) -> None:
        self._share = share
        self._most = most
        self._events: list[tuple[float, str]] = []  # a heap: (until, client)
        self._of_client: Counter[str] = Counter()
        self._shared = 0  # the sum over clients of what each has for others

    def add(self, client: str, until: float) -> None:
        """Count an event of `client` until then."""
        if self._of_client[client] >= self._most or len(self._events) >= _MOST_EVENTS:
            return
        heapq.heappush(self._events, (until, client))
        self._of_client[client] += 1
        self._shared += self._of_client[client] <= self._share

    def size(self, now: float, client: str | None = None) -> int:
        """The number of events as `client` sees it, or somebody with none."""
        while self._events and self._events[0][0] <= now:
            self._end(heapq.heappop(self._events)[1])
        own = 0 if client is None else self._of_client[client]
        return self._shared + max(0, own - self._share)

    def _end(self, client: str) -> None:
        self._shared -= self._of_client[client] <= self._share
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]


# Who of the clients that were refused comes first: by priority, then who has less. Pure.
#
# A place that becomes free goes to whoever asks next, and a client that floods asks most often. So
# the next place is kept for a moment for one that has a right to it, and was told to come then.

# A client has more than its share if it has this many times what another one would have. Between
# equals to within that, the order of arrival decides: keeping places empty costs what they carry.
_GREEDY = 2
# A place is kept until somewhat after the retry time that its client was told, and no more of
# them at a time than a server can spare.
KEPT_SECONDS = 4.0
_MOST_KEPT = 8


@dataclass(frozen=True)
class Party:
    """Who shares the server with others: a tenant or an address, and its key's priority."""

    client: str
    priority: int = 0


class FairShares:
    """The live sessions of each party, and the places that are kept for those with too few."""

    def __init__(self) -> None:
        self._has: Counter[Party] = Counter()
        self._kept: dict[Party, float] = {}  # until when

    def begin(self, party: Party) -> None:
        """One more session of the party."""
        self._has[party] += 1

    def end(self, party: Party) -> None:
        """One session less."""
        self._has[party] -= 1
        if not self._has[party]:
            del self._has[party]

    def keep(self, party: Party, now: float) -> bool:
        """Keep the next place for a party that was refused; return whether that is its right."""
        self._forget(now)
        if not any(self._first(party, other) for other in self._has):
            return False
        if party not in self._kept and len(self._kept) >= _MOST_KEPT:
            return False
        self._kept[party] = now + KEPT_SECONDS
        return True

    def taken(self, party: Party) -> None:
        """The party was let in."""
        self._kept.pop(party, None)

    def kept_from(self, party: Party, now: float) -> int:
        """Return how many places are kept for others that come before the party."""
        self._forget(now)
        return sum(self._first(other, party) for other in self._kept)

    def _first(self, one: Party, other: Party) -> bool:
        if one.priority != other.priority:
            return one.priority > other.priority
        return self._has[other] >= _GREEDY * (self._has[one] + 1)

    def _forget(self, now: float) -> None:
        self._kept = {party: until for party, until in self._kept.items() if until > now}


# How many live sessions the machine carries, learnt from how late their text is. Pure.
#
# A gradient limit, as Vegas and Gradient2 are (Netflix's concurrency-limits): it grows while
# latency is below an aim and shrinks while it is above, the faster the farther it is from it:
#
# room = 1 - latency / aim d ln(carried) / dt = growth · room² while there is room = shrinking ·
# room while there is none
#
# The square makes it fast far below the aim and calm near it, where every session too many is late
# for as long as it lasts. Nothing about the machine is configured, and no law of its waiting
# assumed: one that becomes slower or faster needs no other setting.
#
# The latency is not the 95th percentile of all chunks, although the objective is that of each
# session: sessions differ (long segments, wide batches), and those whose chunks cost most are
# outside first. A session is outside if a twentieth of its chunks is late, and hardly any is if
# three of a thousand of all chunks are (`Tail.p997`): that holds for machines of every kind in the
# simulation, while the pooled 95th percentile of a machine at its limit was between 0.13 and 0.23 s
# of 0.3 s.
#
# The constants below were chosen in `benchmarks/overload/simulation.py`, on two kinds of machine at
# three speeds. All are ratios and times of speech, none a property of a machine.

# Two aims, of which the lower one counts. On a slow machine the objective comes first: rare chunks
# take this share of the target. On a fast one waiting comes first: a chunk that waits seven times
# as long as it takes is on a machine that is 88% busy (T = T0 / (1 - ρ)), and from there a few
# sessions more are too many before it is seen.
_TARGET_SHARE = 0.8
_MOST_BUSY = 0.88
# A single chunk that takes most of the aim is slow for want of speed, not for load.
_MOST_UNLOADED = 0.5
# Per second. From eight sessions to a hundred takes half a minute. Sessions end at 3% a second, so
# shrinking faster than that changes nothing for those that are there.
_GROWTH, _SHRINKING = 0.15, 0.1
# It shrinks no further below the sessions there are: they cannot leave as fast, and are counted
# later. It grows only if they are so many of it: few say nothing of many.
_FLOOR, _IN_USE = 0.93, 0.85
# From few sessions one cannot see a limit that is not the machine's (slots, memory).
_REACH = 2.0
# The unloaded tail follows later ones by this share per second (over an hour), so that one fast
# moment does not set the expectation for ever. Faster, and a busy hour passes for an idle one.
_UNLOADED_DRIFT = 0.0003
# So many sessions may begin at once on a machine of which nothing is known: as many as one that
# needs a tenth of each chunk's time for it carries. One that is slower says so within seconds.
FIRST = 8.0
# A limit below that is forgotten within so many seconds in which nobody, or one session, is served
# in time: few sessions are late for many reasons, and one cannot show that two would not be.
_FORGOTTEN_SECONDS = 16.0


class AdaptiveLimit:
    """The number of sessions that may speak at once, at least one."""

    def __init__(self, target_seconds: float) -> None:
        """95% of a session's chunks are to take at most `target_seconds`."""
        self._target = target_seconds
        self._aim = _TARGET_SHARE * target_seconds
        self._unloaded = _MOST_UNLOADED * self._aim
        self._carried = FIRST
        self._late = False

    @property
    def carried(self) -> float:
        """The number of sessions that the machine carries."""
        return self._carried

    @property
    def admitted(self) -> int:
        """So many sessions may speak now: those carried, to the nearest whole number.

        No more are let in while text is later than the target, as whoever comes makes it later
        still: the machine has just become slower, or sessions speak more than they did.
        """
        return 0 if self._late else round(self._carried)

    def look(self, sessions: float, tail: Tail, seconds: float) -> None:
        """Learn from `sessions`, whose chunks had this `tail`, `seconds` after the last look.

        A tail of 0 is unknown, and nothing is learnt from it.
        """
        alone, in_time = sessions <= 1, tail.p95 <= self._target
        # One session waits for no other: its lateness is want of speed, or chance.
        self._late = not alone and not in_time
        if alone and in_time:
            self._recover(seconds)
        if sessions <= 0 or tail.p95 <= 0:
            return
        self._learn_unloaded(tail.p997, seconds)
        if not alone:
            self._follow(sessions, tail.p997, seconds)

    def _recover(self, seconds: float) -> None:
        risen = self._carried + FIRST * seconds / _FORGOTTEN_SECONDS
        self._carried = max(self._carried, min(FIRST, risen))

    def _follow(self, sessions: float, latency: float, seconds: float) -> None:
        known = self._carried
        aim = min(self._aim, self._unloaded / (1 - _MOST_BUSY))
        room = max(-1.0, 1 - latency / aim)
        if room > 0 and sessions >= _IN_USE * known:
            grown = known * math.exp(min(1.0, _GROWTH * room * room * seconds))
            self._carried = max(known, min(grown, _REACH * sessions))
        elif room < 0:
            shrunk = known * math.exp(_SHRINKING * room * seconds)
            self._carried = min(known, max(shrunk, _FLOOR * sessions))
        if self._late:
            # So many are too many, whatever was known of the machine before.
            self._carried = min(self._carried, sessions)
        self._carried = max(1.0, self._carried)

    def _learn_unloaded(self, latency: float, seconds: float) -> None:
        known = self._unloaded
        known += (latency - known) * min(1.0, _UNLOADED_DRIFT * seconds)
        self._unloaded = min(known, latency, _MOST_UNLOADED * self._aim)


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
