"""Bounded numbers of things that clients hold, shared fairly between clients. No I/O.

A client is a tenant if API keys are configured, otherwise an address: see `addresses.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from auricle.core.errors import Overloaded, RateLimited
from auricle.load.fairness import SILENT_SECONDS

_MOST_CLIENTS = 10_000


class SessionSlot:
    """One client's place in `SessionSlots`.

    `instead_of` is the slot that was taken away for this one, if any; `gone` is set once the
    session that had it has ended.
    """

    def __init__(self, slots: SessionSlots, client: str, instead_of: SessionSlot | None) -> None:
        self.client = client
        self.instead_of = instead_of
        self.preempted = False
        self.gone = asyncio.Event()
        self.spoke_at = 0.0
        self._slots = slots
        self._on_preempted: Callable[[], object] | None = None
        self._left = False

    def on_preempted(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the slot is taken away."""
        self._on_preempted = callback

    def confirm(self) -> None:
        """The session has begun; from now on only long silence lets others have the slot."""
        if not self.preempted and not self._left:
            self._slots.confirm(self)

    def spoke(self) -> None:
        """There is speech; this protects the slot for `SILENT_SECONDS`."""
        if not self.preempted and not self._left:
            self._slots.spoke(self)

    def leave(self) -> None:
        """The session has ended; its client may still receive the reason."""
        self._on_preempted = None
        self.gone.set()

    def release(self) -> None:
        """Give the slot back, unless it was taken away or given back before."""
        self.leave()
        if not self.preempted and not self._left:
            self._left = True
            self._slots.release(self)

    def preempt(self) -> None:
        """Another client gets the slot."""
        self.preempted = True
        if self._on_preempted is not None:
            self._on_preempted()


@dataclass
class _Places:
    """One client's slots: `waiting` have not begun, in the order of their arrival; `begun` are in
    the order of their latest speech."""

    waiting: dict[SessionSlot, None] = field(default_factory=dict)
    begun: dict[SessionSlot, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.begun)


class SessionSlots:
    """At most `limit` slots. If all are taken, a newcomer may get one of the greediest client.

    A slot that was not confirmed can be taken away from a client that then still has at least as
    many of these as the newcomer. So however many slots one client takes, another gets one too.
    A confirmed one without speech for `SILENT_SECONDS` can be taken away from a client that has
    more slots than the newcomer.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.taken = 0
        self._clock = clock
        self._clients: dict[str, _Places] = {}

    def take(self, client: str) -> SessionSlot | None:
        """Return a slot, or None if there is none for this client. The caller must `release` it."""
        other: SessionSlot | None = None
        if self.taken >= self.limit:
            other = self._unbegun_of_another(client) or self._silent_of_another(client)
            if other is None:
                return None
            self.release(other)
            other.preempt()
        slot = SessionSlot(self, client, other)
        self.taken += 1
        self._clients.setdefault(client, _Places()).waiting[slot] = None
        return slot

    def held(self, client: str) -> int:
        """The number of slots of one client."""
        return len(self._clients.get(client, ()))

    def confirm(self, slot: SessionSlot) -> None:
        """`SessionSlot.confirm` calls this."""
        if slot in self._clients[slot.client].waiting:
            self.spoke(slot)

    def spoke(self, slot: SessionSlot) -> None:
        """`SessionSlot.spoke` calls this."""
        places = self._clients[slot.client]
        places.waiting.pop(slot, None)
        places.begun.pop(slot, None)
        places.begun[slot] = None
        slot.spoke_at = self._clock()

    def release(self, slot: SessionSlot) -> None:
        """`SessionSlot.release` calls this."""
        places = self._clients[slot.client]
        places.waiting.pop(slot, None)
        places.begun.pop(slot, None)
        if not places:
            del self._clients[slot.client]
        self.taken -= 1

    def _unbegun_of_another(self, client: str) -> SessionSlot | None:
        own = len(self._clients[client].waiting) if client in self._clients else 0
        greediest = max((p.waiting for p in self._clients.values()), key=len, default={})
        if len(greediest) < own + 2:
            return None
        return next(reversed(greediest))  # it has lost least

    def _silent_of_another(self, client: str) -> SessionSlot | None:
        before, own = self._clock() - SILENT_SECONDS, self.held(client)
        silent = [
            places
            for places in self._clients.values()
            if len(places) > own and places.begun and next(iter(places.begun)).spoke_at <= before
        ]
        return next(iter(max(silent, key=len).begun)) if silent else None


class ConcurrencyLimit:
    """Limits how many of a resource one client may hold; 0 disables the limit."""

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._held: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Count one more while the block runs. Raises RateLimited if that is too many."""
        self.enter(client)
        try:
            yield
        finally:
            self.leave(client)

    def enter(self, client: str, *, always: bool = False) -> None:
        """Count one more, until `leave`.

        Raises RateLimited if there are too many, unless `always`.
        """
        if self._limit and self._held[client] >= self._limit and not always:
            raise RateLimited(f"you have {self._limit} {self._what} open; end one first", 5.0)
        self._held[client] += 1

    def leave(self, client: str) -> None:
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]


# The limit of a site (the /48 of an IPv6 address), in limits of one of its networks (/64).
_NETWORKS_PER_SITE = 4


class NetworkLimit:
    """Limits how many of a resource a network may hold, and all clients together; 0: no limit.

    A client is named by its networks: see `addresses.networks_of`. One of a trusted proxy has none.
    """

    def __init__(self, limit: int, what: str, most: int = 0) -> None:
        self._what = what
        self._most = most
        self._entered = 0
        self._limits = [ConcurrencyLimit(n * limit, what) for n in (1, _NETWORKS_PER_SITE)]

    def enter(self, networks: Sequence[str], *, always: bool = False) -> None:
        """Count one more, until `leave`.

        Raises RateLimited or Overloaded if there are too many, unless `always`.
        """
        if self._most and self._entered >= self._most and not always:
            raise Overloaded(f"all {self._most} {self._what} are in use")
        with ExitStack() as undo:
            for limit, network in zip(self._limits, networks, strict=False):
                limit.enter(network, always=always)
                undo.callback(limit.leave, network)
            undo.pop_all()
        self._entered += 1

    def leave(self, networks: Sequence[str]) -> None:
        self._entered -= 1
        for limit, network in zip(self._limits, networks, strict=False):
            limit.leave(network)

    @contextmanager
    def one(self, networks: Sequence[str]) -> Iterator[None]:
        """Count one more while the block runs. Raises as `enter` does."""
        self.enter(networks)
        try:
            yield
        finally:
            self.leave(networks)


class TokenBucket:
    """Holds at most `capacity` tokens and gains `rate` a second. It is full at first.

    It may be overdrawn: usage may be counted afterwards.
    """

    __slots__ = ("_at", "_capacity", "_clock", "_left", "rate")

    def __init__(self, rate: float, capacity: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self._left = self._capacity = capacity
        self._clock = clock
        self._at = clock()

    def take(self, tokens: float) -> None:
        """Take tokens, even if the bucket is empty."""
        self._left -= tokens

    def wait(self, tokens: float = 0.0) -> float:
        """Return the seconds until the bucket has this many tokens."""
        now = self._clock()
        self._left = min(self._capacity, self._left + (now - self._at) * self.rate)
        self._at = now
        return max(0.0, (tokens - self._left) / self.rate)

    def change(self, rate: float, capacity: float) -> None:
        """Refill at another rate from now on; used tokens stay used."""
        self.wait()
        self._left += capacity - self._capacity
        self.rate, self._capacity = rate, capacity


class RateLimiter:
    """A token bucket for each client, with tokens for two seconds; a rate of 0 disables the limit.

    The most recent clients are remembered; one that was forgotten has a full bucket.
    """

    def __init__(
        self,
        per_second: float,
        what: str,
        clock: Callable[[], float] = time.monotonic,
        most_clients: int = _MOST_CLIENTS,
    ) -> None:
        self._rate = per_second
        self._what = what
        self._clock = clock
        self._most_clients = most_clients
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def spend(self, client: str) -> None:
        """Take a token. Raises RateLimited, with the time to the next one, if there is none."""
        if not self._rate:
            return
        bucket = self._bucket(client)
        if wait := bucket.wait(1.0):
            raise RateLimited(f"rate limit exceeded: {self._rate:g} {self._what} per second", wait)
        bucket.take(1.0)

    def charge(self, client: str, tokens: float) -> None:
        """Take tokens, even if there are fewer. Negative ones are given back."""
        if self._rate:
            self._bucket(client).take(tokens)

    def owed(self, client: str) -> float:
        """Return the seconds until no token is owed."""
        bucket = self._buckets.get(client)
        return 0.0 if bucket is None else bucket.wait()

    def _bucket(self, client: str) -> TokenBucket:
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = TokenBucket(self._rate, max(1.0, 2 * self._rate), self._clock)
        self._buckets[client] = bucket
        self._buckets.move_to_end(client)
        if len(self._buckets) > self._most_clients:
            self._buckets.popitem(last=False)
        return bucket


class NetworkRates:
    """The rate of a client's network, and of the site that it is in; see `NetworkLimit`."""

    def __init__(
        self, per_second: float, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        factors = (1, _NETWORKS_PER_SITE)
        self._rates = [RateLimiter(n * per_second, what, clock) for n in factors]

    def spend(self, networks: Sequence[str]) -> None:
        """Take a token. Raises RateLimited, with the time to the next one, if there is none."""
        for rates, network in zip(self._rates, networks, strict=False):
            rates.spend(network)

    def charge(self, networks: Sequence[str], tokens: float) -> None:
        """Take tokens, even if there are fewer. Negative ones are given back."""
        for rates, network in zip(self._rates, networks, strict=False):
            rates.charge(network, tokens)

    def owed(self, networks: Sequence[str]) -> float:
        """Return the seconds until no token is owed."""
        of = zip(self._rates, networks, strict=False)
        return max((rates.owed(network) for rates, network in of), default=0.0)
