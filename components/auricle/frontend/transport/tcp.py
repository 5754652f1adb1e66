"""Protocols with a TCP port of their own, without TLS and keys."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from auricle.core.aio import ReusableTimeout, TaskOwner, with_timeout
from auricle.core.errors import AuricleError, DeadlineExceeded, Overloaded, RateLimited
from auricle.frontend.transport.addresses import address_of
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.connections import ClosingWatch, Connections, Peer, serving
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.live_sessions import LiveSessions

log = logging.getLogger(__name__)
_READ_BYTES = 1 << 16
_AHEAD_BYTES = 1 << 14  # received before the protocol reads it; twice as much pauses the client
_CLOSE_SECONDS = 5.0
_TOLD_SECONDS = 1.0


class _Reader(asyncio.StreamReader):
    """Reports the number of bytes that it receives."""

    received: Callable[[int], None] = staticmethod(lambda _size: None)

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        super().feed_data(data)
        self.received(len(data))


class TcpConnection:
    """One client's connection. Call its methods on the event loop; one task may read at a time."""

    def __init__(
        self, reader: _Reader, writer: asyncio.StreamWriter, connections: Connections
    ) -> None:
        """A `send` may take as long as a reader of `connections` may."""
        self._reader = reader
        self._writer = writer
        self._connections = connections
        self._slow_reader_seconds = connections.limits.reader_seconds
        self._timeout = ReusableTimeout()
        self._sending = asyncio.Lock()
        self._watch = ClosingWatch(self._slow_reader_seconds)
        self._unread = self._unparsed = 0  # bytes of the reader, and of the protocol
        self.client: Peer = writer.get_extra_info("peername")
        reader.received = self._received

    async def read(self, seconds: float, what: str) -> bytes:
        """Return the received data, at least a byte.

        Raises ClientDisconnected at the end, DeadlineExceeded if nothing came for `seconds`, naming
        `what`, and Interrupted after `interrupt`; then nothing is lost.
        """
        return await self._timeout.wait(seconds, self.read_on(), what)

    async def read_on(self) -> bytes:
        """As `read`, without a deadline: who waits for this must be cancelled by something else."""
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError:
            raise ClientDisconnected from None
        if not data:
            raise ClientDisconnected
        self._unread -= len(data)
        return data

    def parsed(self, held: int) -> None:
        """The protocol holds `held` bytes of a message that is not complete.

        They count until the client is admitted: see `Connections.holds`.
        """
        self._unparsed = held
        self._connections.holds(self, self._unread + held)

    def _received(self, size: int) -> None:
        self._unread += size
        try:
            self._connections.holds(self, self._unread + self._unparsed)
        except AuricleError as error:
            self.refused(error)

    async def send(self, data: bytes) -> None:
        """Raises ClientDisconnected, and DeadlineExceeded if the client does not read."""
        async with self._sending:
            try:
                self._writer.write(data)
                await with_timeout(
                    self._slow_reader_seconds, self._writer.drain(), "reading sent data"
                )
            except (OSError, RuntimeError):  # uvloop's error for a closed transport
                raise ClientDisconnected from None

    def interrupt(self) -> None:
        self._timeout.interrupt()

    def check_deadlines(self, now: float) -> None:
        """Cut a connection whose close is not completed."""
        transport = self._writer.transport
        if self._watch.is_over(now, closing=transport.is_closing()):
            transport.abort()

    async def read_up(self) -> None:
        """Send nothing more, and discard the client's data for a second.

        Closing with unread data would reset the connection, and the client might lose the error.
        """
        with suppress(OSError, RuntimeError):
            self._writer.write_eof()
        with suppress(TimeoutError, ClientDisconnected):
            async with asyncio.timeout(_TOLD_SECONDS):
                while True:
                    await self.read_on()

    def abort(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    def refused(self, error: AuricleError) -> None:
        """End the connection at once, as its client was not admitted yet."""
        self._connections.log(self, error)
        self.abort()

    async def close(self) -> None:
        """Close the connection once all that was sent is on its way. Never raises."""
        self._timeout.close()
        self._writer.close()
        try:
            await with_timeout(_CLOSE_SECONDS, self._writer.wait_closed(), "closing")
        except (OSError, RuntimeError, DeadlineExceeded):
            self.abort()


@dataclass(frozen=True)
class TcpProtocol:
    """`serve` serves one client until done, or raises; `error` encodes the error that the
    client receives before its connection is closed."""

    name: str
    serve: Callable[[TcpConnection], Awaitable[None]]
    error: Callable[[AuricleError], bytes]


class TcpServer:
    """Serves one protocol at a port of its own; its connections count among all others."""

    def __init__(
        self,
        protocol: TcpProtocol,
        connections: Connections,
        admission: SessionAdmission,
        sessions: LiveSessions,
    ) -> None:
        self._protocol = protocol
        self._connections = connections
        self._admission = admission
        self._sessions = sessions
        self._tasks = TaskOwner()
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept connections from `listener`, until `close`."""
        loop = asyncio.get_running_loop()

        def accepted() -> asyncio.StreamReaderProtocol:
            reader = _Reader(_AHEAD_BYTES, loop)
            return asyncio.StreamReaderProtocol(reader, partial(self._connected, reader), loop)

        self._server = await loop.create_server(accepted, sock=listener)

    async def close(self) -> None:
        """Accept nothing more, and end the connections there are."""
        if self._server is not None:
            self._server.close()
        await self._tasks.aclose()

    def _connected(
        self, reader: _Reader, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = TcpConnection(reader, writer, self._connections)
        self._tasks.start(self._served(connection), f"{self._protocol.name} connection")

    async def _served(self, connection: TcpConnection) -> None:
        try:
            self._connections.enter(connection, self._protocol.name)
        except (Overloaded, RateLimited) as error:
            self._connections.log(connection, error)
            if self._connections.refuse(connection):
                await self._send_error(connection, error)
            else:
                connection.abort()
        else:
            await self._let_in(connection)
        finally:
            await connection.close()
            self._connections.leave(connection)

    async def _let_in(self, connection: TcpConnection) -> None:
        try:
            with (
                serving(self._connections, connection),
                self._sessions.connection(self._protocol.name, address_of(connection.client)),
                self._admission.interrupting(connection.interrupt),
            ):
                await self._protocol.serve(connection)
        except ClientDisconnected:
            pass
        except AuricleError as error:
            await self._send_error(connection, error)

    async def _send_error(self, connection: TcpConnection, error: AuricleError) -> None:
        try:
            await connection.send(self._protocol.error(error))
        except (ClientDisconnected, AuricleError):
            log.debug("the client left before the error reached it")
            return
        await connection.read_up()
