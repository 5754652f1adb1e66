"""All open connections: their limits and deadlines."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from auricle.core.errors import AuricleError, Overloaded
from auricle.frontend.transport.addresses import (
    Network,
    Networks,
    address_of,
    networks_of,
    within,
)
from auricle.frontend.transport.held_bytes import HeldBytes, RequestBytes
from auricle.frontend.transport.session_log import log_refused
from auricle.frontend.transport.slots import NetworkLimit, NetworkRates

Peer = tuple[str, int] | None
_CHECK_SECONDS = 0.5
# Refused connections that receive an error; others are closed at once.
_MOST_REFUSED = 64
# The divisor of `most` that gives the places reserved for each transport.
_RESERVE = 16
# How long a network that flooded a connection waits for its next one.
_PENALTY_SECONDS = 5.0


@dataclass(frozen=True)
class ConnectionLimits:
    """Bounds of connections, and deadlines in seconds; a limit of 0 is disabled.

    `per_address` and `per_second` are for a client's network: see `slots.NetworkLimit`; as many
    requests without a key are read per second. Each of `transports` has reserved room.
    `unadmitted_bytes`: see `HeldBytes`. `head_seconds`: a request's line and headers;
    `keep_alive_seconds`: the next request; `reader_seconds`: how long a client may leave sent data
    unread; a WebSocket session has as long again to report its error. Addresses in
    `trusted_proxies` are not counted.
    """

    most: int = 8192
    per_address: int = 0
    per_second: float = 0.0
    transports: Sequence[str] = ()
    unadmitted_bytes: int = 256 << 20
    head_seconds: float = 10.0
    keep_alive_seconds: float = 15.0
    reader_seconds: float = 20.0
    trusted_proxies: Sequence[Network] = ()


class Watched(Protocol):
    """A connection with deadlines."""

    client: Peer

    def check_deadlines(self, now: float) -> None:
        """End the connection if a deadline is over at `now`."""

    def abort(self) -> None:
        """End the connection at once."""

    def refused(self, error: AuricleError) -> None:
        """End the connection, with `error` if its client can still receive one."""


@dataclass
class _Place:
    """A connection's place among all others, with the number of its sessions and recordings.

    `networks` is empty for a trusted proxy; `has_key`: the present request has a key. A place
    without a key and without uses is spare.
    """

    transport: str
    networks: Networks
    bytes: RequestBytes
    has_key: bool = False
    uses: int = 0

    @property
    def spare(self) -> bool:
        return not self.has_key and not self.uses


def _refuse(connection: Watched, error: AuricleError) -> None:
    connection.refused(error)


class Connections:
    """Counts connections and ends those whose deadlines are over. Call it on one event loop.

    If all are in use, a new one takes the place of a spare one of the network with most of these.
    One task checks all of them twice a second, because a timer for each would have to be
    moved with every packet.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """`ended` counts the connections that are ended for `room`, or because of a `flood`."""
        self.limits = limits
        self.clock = clock
        self.held = HeldBytes(limits.unadmitted_bytes)
        self._ended = ended
        self._open: dict[Watched, _Place] = {}
        self._refused: set[Watched] = set()
        self._used: Counter[str] = Counter()  # by transport
        # By transport and widest network, those that were spare for the longest time first.
        self._spare: dict[tuple[str, str], dict[Watched, None]] = {}
        self._networks = NetworkLimit(limits.per_address, "connections")
        self._rates = NetworkRates(limits.per_second, "connections", clock)
        self._requests = NetworkRates(limits.per_second, "requests", clock)

    def __len__(self) -> int:
        return len(self._open) + len(self._refused)

    def enter(self, connection: Watched, transport: str) -> None:
        """Count a connection until `leave`. Raises Overloaded or RateLimited if it is refused."""
        networks = self.networks_of(connection.client)
        self._rates.spend(networks)
        self._networks.enter(networks)
        try:
            self._make_room(transport)
        except Overloaded:
            self._networks.leave(networks)
            raise
        place = _Place(transport, networks, self.held.of(networks, connection.refused))
        self._open[connection] = place
        self._used[transport] += 1
        self._sort(connection, place)

    def networks_of(self, client: Peer) -> Networks:
        """Return the networks that a client counts for; none for a trusted proxy."""
        return () if within(client, self.limits.trusted_proxies) else networks_of(client)

    def refuse(self, connection: Watched) -> bool:
        """Whether a refused connection may stay open, until `leave`, to receive the error."""
        if len(self._refused) >= _MOST_REFUSED:
            return False
        self._refused.add(connection)
        return True

    def replace(self, connection: Watched, successor: Watched) -> None:
        """`successor` speaks another protocol on the same transport from now on."""
        if (place := self._open.pop(connection, None)) is not None:
            self._unsort(connection, place)
            place.bytes.close()
            place.bytes = self.held.of(place.networks, partial(_refuse, successor))
            self._open[successor] = place
            self._sort(successor, place)

    def leave(self, connection: Watched) -> None:
        """The connection is closed. Does nothing if it was replaced, or not counted."""
        self._refused.discard(connection)
        if (place := self._open.pop(connection, None)) is not None:
            self._unsort(connection, place)
            place.bytes.close()
            self._used[place.transport] -= 1
            self._networks.leave(place.networks)

    def flooded(self, connection: Watched) -> None:
        """Its client wasted the server's time: its network's next connections have to wait."""
        self._ended("flood")
        if (place := self._open.get(connection)) is not None:
            self._rates.charge(place.networks, _PENALTY_SECONDS * self.limits.per_second)

    # ── spare connections ───────────────────────────────────────────────────

    def shown_key(self, connection: Watched, *, shown: bool) -> None:
        """Whether the present request of the connection has a key."""
        if (place := self._open.get(connection)) is not None and place.has_key is not shown:
            place.has_key = shown
            if shown:
                self._requests.charge(place.networks, -1.0)
            self._sort(connection, place)

    def requested(self, connection: Watched) -> None:
        """A request begins, whose client has shown no key yet."""
        if (place := self._open.get(connection)) is not None:
            self._requests.charge(place.networks, 1.0)

    def must_wait(self, connection: Watched) -> float:
        """Return for how many seconds no new request of the connection may be read.

        A network's requests without a key have a rate. Refusing more would cost as much as
        answering them.
        """
        place = self._open.get(connection)
        return 0.0 if place is None else self._requests.owed(place.networks)

    def used(self, connection: Watched, more: int) -> None:
        """The connection has `more` sessions and recordings than before, or fewer."""
        if (place := self._open.get(connection)) is not None:
            place.uses += more
            self._sort(connection, place)

    def holds(self, connection: Watched, size: int) -> None:
        """`size` bytes were received on the connection and not processed yet.

        They count until the client is admitted. Raises RateLimited or Overloaded if that is too
        much.
        """
        if (place := self._open.get(connection)) is not None and place.spare:
            place.bytes.set(size)

    def _sort(self, connection: Watched, place: _Place) -> None:
        if not place.spare:
            self._unsort(connection, place)
            place.bytes.close()
        elif place.networks:
            key = place.transport, place.networks[-1]
            self._spare.setdefault(key, {})[connection] = None

    def _unsort(self, connection: Watched, place: _Place) -> None:
        if not place.networks:
            return
        key = place.transport, place.networks[-1]
        spare = self._spare.get(key, {})
        spare.pop(connection, None)
        if not spare:
            self._spare.pop(key, None)

    def _make_room(self, transport: str) -> None:
        """End a spare connection if all places are taken. Raises Overloaded if none is spare."""
        most = self.limits.most
        reserve = most // _RESERVE
        others = (one for one in self.limits.transports if one != transport)
        kept = sum(max(0, reserve - self._used[one]) for one in others)
        if len(self._open) + kept < most or (
            self._used[transport] < reserve and len(self._open) < most
        ):
            return
        candidates: list[dict[Watched, None]] = [
            spare
            for (other, _), spare in self._spare.items()
            if other == transport or self._used[other] > reserve
        ]
        if not candidates:
            raise Overloaded(f"all {most} connections are in use")
        most_spare: dict[Watched, None] = max(candidates, key=len)
        oldest = next(iter(most_spare))
        self.leave(oldest)
        self._ended("room")
        oldest.abort()

    def log(self, connection: Watched, error: AuricleError) -> None:
        """Log that a connection was ended because of `error`, up to the log's rate limit."""
        log_refused(address_of(connection.client), error)

    def check_deadlines(self) -> None:
        now = self.clock()
        for connection in (*self._open, *self._refused):
            connection.check_deadlines(now)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.check_deadlines()


# Sessions and keys of the connection that is served, for the table of connections.

_SERVED: ContextVar[tuple[Connections, Watched] | None] = ContextVar("auricle_served", default=None)


@contextmanager
def serving(connections: Connections, connection: Watched) -> Iterator[None]:
    """Tasks that begin in this block serve the client of `connection`."""
    token = _SERVED.set((connections, connection))
    try:
        yield
    finally:
        _SERVED.reset(token)


@contextmanager
def in_use() -> Iterator[None]:
    """A session or recording of the client that is served runs in this block."""
    served = _SERVED.get()
    if served is None:
        yield
        return
    connections, connection = served
    connections.used(connection, 1)
    try:
        yield
    finally:
        connections.used(connection, -1)


def shown_key() -> None:
    """The client that is served has shown a key."""
    if (served := _SERVED.get()) is not None:
        connections, connection = served
        connections.shown_key(connection, shown=True)


class ClosingWatch:
    """Deadlines of the transport itself: of a reader, and of a close that cannot be completed."""

    _CLOSE_SECONDS = 5.0

    def __init__(self, reader_seconds: float) -> None:
        self._reader_seconds = reader_seconds
        self._stalled_at: float | None = None
        self._closing_at: float | None = None

    def stalled(self, now: float) -> None:
        self._stalled_at = now

    def reads(self) -> None:
        self._stalled_at = None

    def is_over(self, now: float, *, closing: bool) -> bool:
        """Whether the transport must be aborted."""
        if closing and self._closing_at is None:
            self._closing_at = now
        since = self._closing_at
        if since is not None and now >= since + self._CLOSE_SECONDS:
            return True
        return self._stalled_at is not None and now >= self._stalled_at + self._reader_seconds


class CountedProtocol(asyncio.Protocol):
    """What our subclasses of uvicorn's protocols share; list it ahead of uvicorn's class."""

    client: Peer
    transport: asyncio.Transport

    def count_among(self, connections: Connections, reader_seconds: float) -> None:
        """Be one of `connections`, whose client may leave data unread for `reader_seconds`."""
        self._connections = connections
        self._watch = ClosingWatch(reader_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch.stalled(self._connections.clock())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.reads()

    def check_deadlines(self, now: float) -> None:
        if self._watch.is_over(now, closing=self.transport.is_closing()):
            self.transport.abort()

    def abort(self) -> None:
        self.transport.abort()

    def refused(self, error: AuricleError) -> None:
        raise NotImplementedError
