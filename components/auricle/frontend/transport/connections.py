"""All open connections: their limits and deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from auricle.core.errors import AuricleError, Overloaded
from auricle.frontend.transport.addresses import Network, address_of, host_of, within
from auricle.frontend.transport.session_log import log_refused
from auricle.frontend.transport.slots import ConcurrencyLimit

Peer = tuple[str, int] | None
_CHECK_SECONDS = 0.5
# Refused connections that receive an error; others are closed at once.
_MOST_REFUSED = 64


@dataclass(frozen=True)
class ConnectionLimits:
    """Bounds of connections, and deadlines in seconds; a `per_address` of 0 disables that limit.

    `head_seconds`: a request's line and headers; `keep_alive_seconds`: the next request;
    `reader_seconds`: how long a client may leave sent data unread; a WebSocket session has
    as long again to report its error. Addresses in `trusted_proxies` are not counted.
    """

    most: int = 8192
    per_address: int = 0
    head_seconds: float = 10.0
    keep_alive_seconds: float = 15.0
    reader_seconds: float = 20.0
    trusted_proxies: Sequence[Network] = ()


class Watched(Protocol):
    """A connection with deadlines."""

    client: Peer

    def check_deadlines(self, now: float) -> None:
        """End the connection if a deadline is over at `now`."""


class Connections:
    """Counts connections and ends those whose deadlines are over. Call it on one event loop.

    One task checks all of them twice a second, because a timer for each would have to be
    moved with every packet.
    """

    def __init__(
        self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self.clock = clock
        self._open: dict[Watched, str | None] = {}  # the host they are counted for
        self._refused: set[Watched] = set()
        self._hosts = ConcurrencyLimit(limits.per_address, "connections")

    def __len__(self) -> int:
        return len(self._open) + len(self._refused)

    def enter(self, connection: Watched) -> None:
        """Count a connection until `leave`. Raises Overloaded or RateLimited if it is refused."""
        proxy = within(connection.client, self.limits.trusted_proxies)
        host = None if proxy else host_of(connection.client)
        if len(self._open) >= self.limits.most:
            raise Overloaded(f"all {self.limits.most} connections are in use")
        if host is not None:
            self._hosts.enter(host)
        self._open[connection] = host

    def refuse(self, connection: Watched) -> bool:
        """Whether a refused connection may stay open, until `leave`, to receive the error."""
        if len(self._refused) >= _MOST_REFUSED:
            return False
        self._refused.add(connection)
        return True

    def replace(self, connection: Watched, successor: Watched) -> None:
        """`successor` speaks another protocol on the same transport from now on."""
        self._open[successor] = self._open.pop(connection)

    def leave(self, connection: Watched) -> None:
        """The connection is closed. Does nothing if it was replaced, or not counted."""
        self._refused.discard(connection)
        if connection in self._open:
            host = self._open.pop(connection)
            if host is not None:
                self._hosts.leave(host)

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
