"""Bounded numbers of things that clients hold, shared fairly between clients. Pure.

A client is a tenant if API keys are configured, otherwise an address: see `addresses.py`.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.core.errors import Overloaded, RateLimited

_MOST_CLIENTS = 10_000


def slot_preempted() -> Overloaded:
    """Return the error for a client whose slot went to another client."""
    return Overloaded(
        "session slot released: no audio arrived while other clients were waiting; try again"
    )


class SessionSlot:
    """One client's place in `SessionSlots`."""

    def __init__(self, slots: SessionSlots, client: str) -> None:
        self.client = client
        self.preempted = False
        self._slots = slots
        self._on_preempted: Callable[[], None] | None = None
        self._left = False

    def on_preempted(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the slot is taken away."""
        self._on_preempted = callback

    def confirm(self) -> None:
        """Protect this slot from preemption."""
        if not self.preempted:
            self._slots.confirm(self)

    def release(self) -> None:
        """Give the slot back, unless it was taken away or given back before."""
        if not self.preempted and not self._left:
            self._left = True
            self._slots.release(self)

    def preempt(self) -> None:
        """Another client gets the slot."""
        self.preempted = True
        if self._on_preempted is not None:
            self._on_preempted()


class SessionSlots:
    """At most `limit` slots. If all are taken, a newcomer may get one of the greediest client.

    Only a slot that was not confirmed can be taken away, and only from a client that then
    still has at least as many unconfirmed slots as the newcomer. So however many slots one
    client takes, another gets one too.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._unconfirmed: dict[str, dict[SessionSlot, None]] = {}  # in order of their arrival

    def take(self, client: str) -> SessionSlot | None:
        """Return a slot, or None if there is none for this client. The caller must `release` it."""
        if self.taken >= self.limit and not self._taken_from_another(client):
            return None
        slot = SessionSlot(self, client)
        self.taken += 1
        self._unconfirmed.setdefault(client, {})[slot] = None
        return slot

    def confirm(self, slot: SessionSlot) -> None:
        """`SessionSlot.confirm` calls this."""
        self._forget(slot)

    def release(self, slot: SessionSlot) -> None:
        """`SessionSlot.release` calls this."""
        self._forget(slot)
        self.taken -= 1

    def _forget(self, slot: SessionSlot) -> None:
        slots = self._unconfirmed.get(slot.client, {})
        slots.pop(slot, None)
        if not slots:
            self._unconfirmed.pop(slot.client, None)

    def _taken_from_another(self, client: str) -> bool:
        greediest = max(self._unconfirmed.values(), key=len, default={})
        if len(greediest) < len(self._unconfirmed.get(client, ())) + 2:
            return False
        newest = next(reversed(greediest))  # it has lost least
        self.release(newest)
        newest.preempt()
        return True


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

    def enter(self, client: str) -> None:
        """Count one more, until `leave`. Raises RateLimited if that is too many."""
        if self._limit and self._held[client] >= self._limit:
            raise RateLimited(f"you have {self._limit} {self._what} open; end one first", 5.0)
        self._held[client] += 1

    def leave(self, client: str) -> None:
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]


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
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = TokenBucket(self._rate, max(1.0, 2 * self._rate), self._clock)
        self._buckets[client] = bucket
        self._buckets.move_to_end(client)
        if len(self._buckets) > self._most_clients:
            self._buckets.popitem(last=False)
        if wait := bucket.wait(1.0):
            raise RateLimited(f"rate limit exceeded: {self._rate:g} {self._what} per second", wait)
        bucket.take(1.0)
