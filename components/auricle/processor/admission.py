"""Admission of live sessions, up to the number that the machine can carry. No I/O but the clock.

`AdaptiveLimit` estimates this number; `FairShares` ranks refused clients.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

from auricle.core.errors import AuricleError, Overloaded
from auricle.load.chunk_load import TAIL_SECONDS, ChunkLoad, Tail
from auricle.load.fairness import SILENT_SECONDS, share_of, slot_preempted
from auricle.protocol.sessions import ADMISSION_SECONDS

_MOST_EVENTS = 50_000


class Crowd:
    """Recent events of clients, each counted until a given time. Pure.

    A client sees all of its own events, up to `most`, but at most `share` of each other client:
    otherwise one client alone would look like a crowd. Counting takes constant time.
    """

    def __init__(self, share: int, most: int) -> None:
        self._share = share
        self._most = most
        self._events: list[tuple[float, str]] = []  # a heap: (until, client)
        self._of_client: Counter[str] = Counter()
        self._shared = 0  # the events that every client sees

    def add(self, client: str, until: float) -> None:
        if self._of_client[client] >= self._most or len(self._events) >= _MOST_EVENTS:
            return
        heapq.heappush(self._events, (until, client))
        self._of_client[client] += 1
        self._shared += self._of_client[client] <= self._share

    def size(self, now: float, client: str | None = None) -> int:
        """The number of events that `client` sees; without a client, a new one."""
        while self._events and self._events[0][0] <= now:
            self._end(heapq.heappop(self._events)[1])
        own = 0 if client is None else self._of_client[client]
        return self._shared + max(0, own - self._share)

    def _end(self, client: str) -> None:
        self._shared -= self._of_client[client] <= self._share
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]


# Ranks refused clients by priority, then by their number of sessions. Pure.
#
# A free place would go to the next request, and a client that floods sends most requests. So a
# place is reserved for a short time for a client that ranks first, whose refusal gave it a retry
# time within this time.

# A client exceeds its share if it has this many times the sessions that another one would have.
# Below this ratio the order of arrival decides, because a reserved place carries nothing.
_GREEDY = 2
# Reservations expire shortly after the retry time. Their number is bounded by the capacity that a
# server can leave unused.
KEPT_SECONDS = 4.0
_MOST_KEPT = 8


@dataclass(frozen=True)
class Party:
    """A client of the server: a tenant or an address, and the priority of its key."""

    client: str
    priority: int = 0


class FairShares:
    """Counts live sessions by party, and reserves places for parties below their share."""

    def __init__(self) -> None:
        self._has: Counter[Party] = Counter()
        self._kept: dict[Party, float] = {}  # until when

    def of(self, party: Party) -> int:
        """The number of live sessions of a party."""
        return self._has[party]

    def above(self, number: int, priority: int) -> bool:
        """Whether a party of at most this `priority` has more than `number` sessions."""
        return any(n > number for party, n in self._has.items() if party.priority <= priority)

    def begin(self, party: Party) -> None:
        self._has[party] += 1

    def end(self, party: Party) -> None:
        self._has[party] -= 1
        if not self._has[party]:
            del self._has[party]

    def keep(self, party: Party, now: float) -> bool:
        """Reserve the next place for a refused party; return whether it ranks before another."""
        self._forget(now)
        if not any(self._first(party, other) for other in self._has):
            return False
        if party not in self._kept and len(self._kept) >= _MOST_KEPT:
            return False
        self._kept[party] = now + KEPT_SECONDS
        return True

    def taken(self, party: Party) -> None:
        """Clear the reservation of an admitted party."""
        self._kept.pop(party, None)

    def kept_from(self, party: Party, now: float) -> int:
        """Return the number of places reserved for parties that rank before this one."""
        self._forget(now)
        return sum(self._first(other, party) for other in self._kept)

    def _first(self, one: Party, other: Party) -> bool:
        if one.priority != other.priority:
            return one.priority > other.priority
        return self._has[other] >= _GREEDY * (self._has[one] + 1)

    def _forget(self, now: float) -> None:
        self._kept = {party: until for party, until in self._kept.items() if until > now}


# Estimates how many live sessions the machine carries, from the latency of their text. Pure.
#
# A gradient limit, like Vegas and Gradient2 (Netflix's concurrency-limits): it grows while latency
# is below an aim and shrinks while it is above, in proportion to the distance:
#
#   room = 1 - latency / aim
#   d ln(carried) / dt = growth · room²     if room > 0
#                      = shrinking · room   otherwise
#
# The square makes growth fast far below the aim and slow near it, where each excess session is late
# for its whole length. No property of the machine is configured and no queueing model is assumed,
# so a machine that becomes slower or faster needs no other setting.
#
# The objective is a 95th percentile per session. The pooled 95th percentile of all chunks does not
# measure it: sessions differ (long segments, wide batches), and those with expensive chunks miss
# the objective first. A session misses it if 5% of its chunks are late, which is rare while less
# than 0.3% of all chunks are late (`Tail.p997`). In the simulation this holds for all machines,
# while the pooled 95th percentile of a machine at its limit was between 0.13 and 0.23 s of 0.3 s.
#
# The constants below were chosen in `benchmarks/overload/simulation.py`, on two kinds of machine at
# three speeds. They are ratios and durations of speech; none is a property of a machine.

# There are two aims, and the lower one applies. Slow machines reach the objective first: rare
# chunks take this share of the target. Fast machines reach saturation first: a chunk that waits
# seven times its service time indicates 88% utilization (T = T0 / (1 - ρ)), where a few more
# sessions overload the machine before latency shows it.
_TARGET_SHARE = 0.8
_MOST_BUSY = 0.88
# If a single chunk takes most of the aim, the machine is slow, not loaded.
_MOST_UNLOADED = 0.5
# Per second. Growth from 8 to 100 sessions takes half a minute. Sessions end at 3% per second, so
# faster shrinking would not reduce their number faster.
_GROWTH, _SHRINKING = 0.15, 0.1
# The limit stays above this share of the open sessions, which cannot end as fast. It grows only if
# sessions use this share of it: few sessions give no information about many.
_FLOOR, _IN_USE = 0.93, 0.85
# Few sessions do not reveal other limits (slots, memory).
_REACH = 2.0
# The unloaded tail follows later values by this share per second (over an hour), so that one fast
# moment does not set it for ever. With a faster drift a busy hour would count as an idle one.
_UNLOADED_DRIFT = 0.0003
# Sessions admitted before anything is measured: the capacity of a machine that needs a tenth of
# each chunk's duration to process it. A slower machine is detected within seconds.
FIRST = 8.0
# A lower limit recovers within this time while at most one session is open and in time: few
# sessions can be late for other reasons than load, and one session alone cannot refute the limit.
_FORGOTTEN_SECONDS = 16.0


class AdaptiveLimit:
    """The number of sessions that may speak at once, at least one."""

    def __init__(self, target_seconds: float) -> None:
        """The objective: 95% of a session's chunks take at most `target_seconds`."""
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
        """The number of sessions that may speak now: `carried`, rounded.

        It is 0 while text is later than the target, because every further session would delay it
        more: the machine has just become slower, or sessions speak more than before.
        """
        return 0 if self._late else round(self._carried)

    def observe(self, sessions: float, tail: Tail, seconds: float) -> None:
        """Adapt to the `tail` of `sessions`, `seconds` after the last observation.

        A tail of 0 is unknown and changes nothing.
        """
        alone, in_time = sessions <= 1, tail.p95 <= self._target
        # One session waits for no other. If it is late, the machine is slow, or it is chance.
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
            # This number is too large, whatever was measured before.
            self._carried = min(self._carried, sessions)
        self._carried = max(1.0, self._carried)

    def _learn_unloaded(self, latency: float, seconds: float) -> None:
        known = self._unloaded
        known += (latency - known) * min(1.0, _UNLOADED_DRIFT * seconds)
        self._unloaded = min(known, latency, _MOST_UNLOADED * self._aim)


_OBSERVATION_SECONDS = 0.5
# A session that has been silent for longer costs nothing, and its place is lent to others.
_SILENT_SECONDS = 10.0
# A session without speech for that long since its start may never have any.
_UNSPOKEN_SECONDS = 1.0
# Retry times spread refused clients to about this rate: each retry costs a handshake, at the
# expense of running sessions.
_RETRIES_PER_SECOND = 2.0
_REFUSALS_SECONDS = 10.0
_SHORTEST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 2.0, 30.0
# The most refusals, and sessions not begun yet, of one client that count for other clients.
_REFUSED_SHARE, _EXPECTED_SHARE = 4, 2
# Further events of one client are not counted: its retry time is the longest by then.
_MOST_OF_CLIENT = 64
# The party of sessions that moved here from another processor.
_UNKNOWN = Party("")


# Ends a session with the error.
End = Callable[[AuricleError], None]


@dataclass
class _Live:
    speaking: Callable[[], bool]
    end: End | None
    party: Party
    spoke_at: float  # or when it began
    has_spoken: bool = False


class Admission:
    """Decides whether one more live session fits.

    The owner wraps every live session in `live`, and calls `observe` often. Not thread-safe: use it
    on the event loop.
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
        # Time of admission and party of each session that has not begun yet.
        self._admitted: dict[str, tuple[float, Party]] = {}
        self._shares = FairShares()
        self._observed = clock()
        self._active = 0
        self._counts: deque[tuple[float, int]] = deque()  # (time, speakers from then on)
        self._refused_lately = Crowd(_REFUSED_SHARE, _MOST_OF_CLIENT)
        self._waiting = Crowd(_MOST_OF_CLIENT, _MOST_OF_CLIENT)

    def check_room(self, sessions: int) -> None:
        """Raise Overloaded if `sessions`, of any kind, is the maximum."""
        if sessions >= self._most:
            raise Overloaded(f"all {self._most} sessions are in use; try again")

    @contextmanager
    def live(
        self, name: str, speaking: Callable[[], bool] = lambda: True, end: End | None = None
    ) -> Iterator[None]:
        """Count a live session, which may have been admitted as `name`, while the block runs.

        A client with fewer sessions may get its place while it is silent; `end` is then called.
        """
        _, party = self._admitted.pop(name, (0.0, _UNKNOWN))
        key = object()
        self._live[key] = _Live(speaking, end, party, self._clock())
        self._shares.begin(party)
        self._count()
        try:
            yield
        finally:
            self._gone(key)

    def _gone(self, key: object) -> None:
        if (session := self._live.pop(key, None)) is not None:
            self._shares.end(session.party)
            self._count()

    def withdraw(self, name: str) -> None:
        """Forget the admission `name`, if there is one: its session will not be opened."""
        self._admitted.pop(name, None)

    def admit(
        self,
        name: str,
        client: str = "",
        *,
        priority: int = 0,
        resumes: bool = False,
        others: bool = False,
        bounded: bool = False,
    ) -> None:
        """Admit one more live session of `client`; one that `resumes` if only there is room.

        If there are `others` and the client is not `bounded` by a number of its own, it may have
        its share of all sessions only. Raises Overloaded with the reason and a retry time.
        """
        self.observe()
        now, party = self._clock(), Party(client, priority)
        expected = self._expected(now, client)
        own = self._shares.of(party) + sum(p == party for _, p in self._admitted.values())
        if others and not bounded and own >= share_of(self._most):
            raise Overloaded(
                f"{own} of the {self._most} sessions are this client's, which is its share",
                _SHORTEST_RETRY_SECONDS,
            )
        if len(self._live) + expected >= self._most:
            self._end_silent(now, own)
        self.check_room(len(self._live) + expected)
        taken = self._active + expected + self._shares.kept_from(party, now)
        # One session on an empty machine is always admitted: it delays no other.
        owed = others and not own and self._owed(party, taken, now)
        if not resumes and not owed and taken >= max(1, self.limit):
            raise self._refused(party)
        self._shares.taken(party)
        self._admitted[name] = (now, party)

    def _owed(self, party: Party, taken: int, now: float) -> bool:
        """Whether the first session of `party` is admitted beyond the limit.

        It is if another party has more than its share, because who speaks is never ended, or if
        another party has several sessions and one of them without speech so far. The limit itself
        is not divided: it would not grow while sessions leave an eighth of it unused.
        """
        share = share_of(self.limit)
        if taken >= 2 * self.limit - share:
            return False
        return self._shares.above(share, party.priority) or any(
            not session.has_spoken
            and session.spoke_at <= now - _UNSPOKEN_SECONDS
            and session.party.priority <= party.priority
            and self._shares.of(session.party) > 1
            for session in self._live.values()
        )

    def _end_silent(self, now: float, own: int) -> None:
        """End the longest silent session of the party with most, if that has more than `own`."""
        silent = [
            (self._shares.of(session.party), now - session.spoke_at, key, session.end)
            for key, session in self._live.items()
            if session.end is not None
            and session.party != _UNKNOWN
            and session.spoke_at <= now - SILENT_SECONDS
        ]
        most, _, key, end = max(silent, key=itemgetter(0, 1), default=(0, 0.0, None, None))
        if most > own and end is not None:
            self._gone(key)
            end(slot_preempted())

    @property
    def limit(self) -> int:
        """The number of live sessions that may speak at once."""
        return self._most if self._limit is None else min(self._most, self._limit.admitted)

    @property
    def active(self) -> int:
        """The number of live sessions that have spoken lately or have just begun."""
        return self._active

    @property
    def waiting(self) -> int:
        """The number of refused clients whose retry time has not come yet."""
        return self._waiting.size(self._clock())

    def observe(self) -> None:
        """Adapt the limit to the latest chunks, at most every half second."""
        now = self._clock()
        passed = now - self._observed
        if passed < _OBSERVATION_SECONDS:
            return
        self._observed = now
        for session in self._live.values():
            if session.speaking():
                session.spoke_at, session.has_spoken = now, True
        self._count()
        if self._limit is not None:
            self._limit.observe(self._average(now), self._load.tail, passed)

    def _refused(self, party: Party) -> Overloaded:
        """Return the refusal. Its retry time grows with the number of recent refusals.

        A client that retries often delays itself much, and others hardly. A client below its share
        gets a short retry time and a reserved place.
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
            "another one would delay their text",
            retry,
        )

    def _expected(self, now: float, client: str) -> int:
        """Return the number of admitted sessions not begun yet that count for `client`.

        Only a few of each other client count: connecting costs nothing, so a client that connects
        often must not exclude others.
        """
        for name, (when, _) in tuple(self._admitted.items()):  # the oldest first
            if when >= now - ADMISSION_SECONDS:
                break
            del self._admitted[name]
        expected = Counter(party.client for _, party in self._admitted.values())
        return sum(n if of == client else min(n, _EXPECTED_SHARE) for of, n in expected.items())

    def _average(self, now: float) -> float:
        """The mean number of sessions with speech during the interval of the load's tail."""
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
