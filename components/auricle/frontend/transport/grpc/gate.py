"""The port of the gRPC server: counts and bounds clients' bytes, and passes them on to the library.

gRPC's library accepts its connections itself, and shows neither them nor their frames. So it
listens at a socket that only this process reaches, and the port is served here.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from auricle.config.settings import FrontendSettings
from auricle.core.aio import TaskOwner, TimeSlice
from auricle.core.errors import AuricleError, BadRequest, Overloaded, RateLimited, TooSlow
from auricle.frontend.transport.certificate import Certificate
from auricle.frontend.transport.connections import ClosingWatch, Connections, Peer
from auricle.frontend.transport.grpc import TRANSPORT, frames
from auricle.frontend.transport.grpc.frames import Http2Reader
from auricle.frontend.transport.grpc.streams import RpcCall, RpcCalls
from auricle.frontend.transport.slots import NetworkLimit, NetworkRates

log = logging.getLogger(__name__)
# Frames without data (pings, settings, resets, new calls, more room) of a network, a second.
_FRAMES_PER_SECOND = 2_000.0
# Calls that wait for the library, of a network and in all. Beyond its own limit it cancels calls
# at random, whoever makes them.
_WAITING_CALLS, _ALL_WAITING_CALLS = 512, 4_096
LIBRARY_WAITING_CALLS = 2 * _ALL_WAITING_CALLS  # with those that end before it has seen them
_FRAMES_AT_ONCE = 64  # between two looks at the clock
# Of a connection: its sessions end themselves before, and may say why for as long again.
_FAREWELL_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_BACKLOG = 2_048
Metadata = Iterable[tuple[str, str | bytes]]


class Gate:
    """Accepts the connections of `Frontend.grpc_port`. Call it on one event loop."""

    def __init__(self, settings: FrontendSettings, connections: Connections) -> None:
        self._settings = settings
        self.connections = connections
        self.largest = settings.grpc_max_message_bytes
        self.frames_rate = NetworkRates(_FRAMES_PER_SECOND, "frames without data")
        self.waiting = NetworkLimit(_WAITING_CALLS, "new calls", _ALL_WAITING_CALLS)
        # Clients cannot know the name of the header by which a call is recognized.
        self._mark = f"x-auricle-{secrets.token_hex(8)}"
        self._folder = TemporaryDirectory(prefix="auricle-grpc-")  # readable by this user only
        self._connections: dict[int, GateConnection] = {}
        self._count = 0
        self._server: asyncio.Server | None = None
        self.tls = _tls(settings)
        self.tasks = TaskOwner()

    @property
    def socket(self) -> Path:
        """Where the library listens."""
        return Path(self._folder.name) / "calls"

    async def open(self) -> int:
        """Accept connections; return the port. Raises OSError if it is taken."""
        settings, loop = self._settings, asyncio.get_running_loop()
        context = self.tls
        self._server = await loop.create_server(
            lambda: GateConnection(self),
            settings.host,
            settings.grpc_port,
            backlog=_BACKLOG,
            ssl=context,
            ssl_handshake_timeout=settings.header_timeout_seconds if context else None,
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Accept nothing more."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """End the connections there are."""
        for connection in tuple(self._connections.values()):
            connection.abort()
        await self.tasks.aclose()
        self._folder.cleanup()

    def enter(self, connection: GateConnection) -> Callable[[int], tuple[str, str]]:
        """Count a connection until `leave`; return what makes the header of one of its streams.

        Raises Overloaded or RateLimited if it is refused.
        """
        self.connections.enter(connection, TRANSPORT)
        self._count += 1
        number = connection.number = self._count
        self._connections[number] = connection
        return lambda stream: (self._mark, f"{number}.{stream}")

    def leave(self, connection: GateConnection) -> None:
        self._connections.pop(connection.number, None)
        self.connections.leave(connection)

    def call_of(self, metadata: Metadata) -> RpcCall | None:
        """Return the call with this metadata, None if it has ended or did not come through here."""
        number = stream = ""
        for name, value in metadata:
            if name == self._mark and isinstance(value, str):
                number, _, stream = value.partition(".")
        connection = self._connections.get(int(number)) if number else None
        if connection is None or connection.calls is None:
            return None
        return connection.calls.open.get(int(stream))


class GateConnection(asyncio.Protocol):
    """A client's connection. Its bytes are passed on in both directions as they come."""

    calls: RpcCalls | None = None
    number = 0
    client: Peer = None
    _transport: asyncio.Transport

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        limits = gate.connections.limits
        self._watch = ClosingWatch(2 * limits.reader_seconds + _FAREWELL_SECONDS)
        self._until: float | None = gate.connections.clock() + limits.head_seconds
        self._time_slice = TimeSlice()
        self._next: asyncio.Handle | None = None  # what reads on
        self._paused = True  # until the library is reached
        self._library: _Library | None = None
        # Received, but not passed on yet: the start of a frame, or the rest of a time slice.
        self._rest = self._rest_of_answers = b""
        self._own, self._own_answers = bytearray(), bytearray()  # frames that wait for their turn

    # ── the connection ──────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        name = transport.get_extra_info("peername")
        self.client = (name[0], name[1]) if name else None
        try:
            mark = self._gate.enter(self)
        except (Overloaded, RateLimited) as error:
            self._gate.connections.log(self, error)
            transport.abort()
            return
        self.calls = RpcCalls(
            self._gate.connections,
            self,
            self._gate.largest,
            (self._to_client, self._to_library),
            mark,
            self._gate.frames_rate,
            self._gate.waiting,
        )
        self._reader = Http2Reader(self.calls.from_client)
        self._answers = Http2Reader(self.calls.from_server)
        transport.pause_reading()
        self._gate.tasks.start(self._connect(), "gRPC connection")

    async def _connect(self) -> None:
        library = _Library(self)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                path = str(self._gate.socket)
                await asyncio.get_running_loop().create_unix_connection(lambda: library, path)
        except OSError as error:
            log.error("the gRPC server cannot be reached: %s", error)
            self._transport.abort()
            return
        if self._transport.is_closing():
            library.transport.abort()
            return
        self._library = library
        self.pace()
        self._read()  # uvloop may have received something before it was paused

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
        if self.calls is not None:
            self.calls.close_all()
            self._gate.leave(self)
        # Calls refer to their connection: its bytes must not wait for the garbage collector.
        self._rest = self._rest_of_answers = b""
        if self._library is not None:
            self._library.transport.abort()
            self._library = None

    def check_deadlines(self, now: float) -> None:
        """End a connection that does not begin, or is not read from."""
        closing = self._transport.is_closing()
        if self._watch.is_over(now, closing=closing):
            self._transport.abort()
        elif self._until is not None and now >= self._until and not closing:
            seconds = self._gate.connections.limits.head_seconds
            self._gate.connections.log(self, TooSlow(f"the preface took longer than {seconds:g} s"))
            self._transport.abort()

    def abort(self) -> None:
        self._transport.abort()

    def refused(self, error: AuricleError) -> None:
        """End the connection with all its calls."""
        self._gate.connections.log(self, error)
        self._to_client(frames.goaway(frames.ENHANCE_YOUR_CALM, error.for_client.encode()))
        self._transport.close()

    # ── from the client ─────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self.calls is None or self._transport.is_closing():
            return
        self._rest += data
        if self._library is None:
            self._transport.pause_reading()  # uvloop begins to read after `connection_made`
        elif self._next is None:
            self._read()

    def _read(self) -> None:
        """Pass on the received bytes, a time slice at a time."""
        self._next = None
        library = self._library
        if library is None or self._transport.is_closing() or not self._begun(library):
            return
        passed: list[bytes | memoryview] = []
        data, at = self._rest, 0
        self._time_slice.begin()
        try:
            while (stop := self._reader.read(data, at, passed, _FRAMES_AT_ONCE)) > at:
                at = stop
                if self._time_slice.expired:
                    self._next = asyncio.get_running_loop().call_soon(self._read)
                    break
        except RateLimited as error:
            self._flooded(error)
            return
        except BadRequest as error:
            self.refused(error)
            return
        self._rest = data[at:]
        library.transport.writelines(passed)
        self._to_library(b"")
        self.pace()

    def _flooded(self, error: RateLimited) -> None:
        if self.calls is not None:
            self.calls.flooded()
        self.refused(error)

    def _begun(self, library: _Library) -> bool:
        """Whether the client has begun as HTTP/2 does; ends the connection if it cannot."""
        if self._until is None:
            return True
        size = len(frames.PREFACE)
        if not frames.PREFACE.startswith(self._rest[:size]):
            self._gate.connections.log(self, BadRequest("the connection does not speak HTTP/2"))
            self._transport.close()
        if len(self._rest) < size or self._transport.is_closing():
            return False
        library.transport.write(frames.PREFACE)
        self._rest, self._until = self._rest[size:], None
        return True

    def _to_library(self, more: bytes) -> None:
        """Send frames of our own to the library, between the client's."""
        self._own += more
        if self._own and self._library is not None and self._reader.between_frames:
            self._library.transport.write(bytes(self._own))
            self._own.clear()

    def pace(self) -> None:
        """Receive more only when everything that was received is passed on."""
        if self._library is None or self._transport.is_closing():
            return
        pause = self._next is not None or self._library.full
        if pause is not self._paused:
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # ── to the client ───────────────────────────────────────────────────────

    def answer(self, data: bytes) -> None:
        """Pass on bytes of the library."""
        if self._transport.is_closing():
            return
        data = self._rest_of_answers + data
        passed: list[bytes | memoryview] = []
        at = self._answers.read(data, 0, passed, len(data))
        self._rest_of_answers = data[at:]
        self._transport.writelines(passed)
        self._to_client(b"")

    def _to_client(self, more: bytes) -> None:
        """Send frames of our own to the client, between the library's."""
        self._own_answers += more
        if self._own_answers and self._answers.between_frames and not self._transport.is_closing():
            self._transport.write(bytes(self._own_answers))
            self._own_answers.clear()

    def library_gone(self) -> None:
        if self.calls is not None and not self._transport.is_closing():
            self.calls.library_gone()
        self._transport.close()

    def pause_writing(self) -> None:
        """The client does not read: the library is to wait."""
        self._watch.stalled(self._gate.connections.clock())
        if self._library is not None:
            self._library.transport.pause_reading()

    def resume_writing(self) -> None:
        self._watch.reads()
        if self._library is not None and not self._library.transport.is_closing():
            self._library.transport.resume_reading()


class _Library(asyncio.Protocol):
    """The other end of a client's connection."""

    transport: asyncio.Transport
    full = False

    def __init__(self, connection: GateConnection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._connection.answer(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.library_gone()

    def pause_writing(self) -> None:
        self.full = True
        self._connection.pace()

    def resume_writing(self) -> None:
        self.full = False
        self._connection.pace()


def _tls(settings: FrontendSettings) -> ssl.SSLContext | None:
    """Return the context of TLS, None without a certificate."""
    if (certificate := Certificate.of(settings)) is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load(context)
    context.set_alpn_protocols(["h2"])
    return context
