"""Proxies that delay, slow down, stop, cut and reorder the connections through them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from auricle.core.aio import cancelled

_BLOCK = 16_384
_IN_FLIGHT_BLOCKS = 256
_CONNECT_SECONDS = 5.0
# `reorder` holds back a connection for at most this time if no other one arrives.
_SECOND_SECONDS = 3.0
_END_SECONDS = 10.0


@dataclass(eq=False)
class _Connection:
    """One connection: the client's side and the server's."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def reset(self) -> None:
        """Close both sides so that their peers see a reset."""
        for writer in (self.client, self.server):
            if writer is not None:
                _linger_nothing(writer)
                writer.transport.abort()


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Passing:
    """Forwards connections. Use it on one event loop.

    `delay_seconds` and `bytes_per_second` (None: no limit) apply to both directions and may be set
    at any time. `bytes_passed` counts the bytes that clients have sent.
    """

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.bytes_per_second: float | None = None
        self.bytes_passed = 0
        self.connections_made = 0
        self.connected_at = -math.inf  # on the event loop's clock: the newest connection
        self._passing = asyncio.Event()
        self._passing.set()
        self._live: set[_Connection] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._reordering = False
        self._another = asyncio.Event()  # set when another connection is made

    async def _to_server(self) -> _Streams:
        """Connect to the destination of the next connection. Raises OSError if it refuses."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def _until_left(self, server: asyncio.Server) -> AsyncIterator[None]:
        try:
            yield
        finally:
            server.close()
            self.go_on()
            self.cut()
            if self._handling:
                await asyncio.wait(self._handling, timeout=_END_SECONDS)

    def stall(self) -> None:
        """Forward nothing in either direction.

        Connections stay open and new ones are accepted, so both peers consider the other alive.
        """
        self._passing.clear()

    def go_on(self) -> None:
        """Forward everything that was held back."""
        self._passing.set()

    def cut(self) -> None:
        """Reset all connections."""
        for connection in list(self._live):
            connection.reset()

    def reorder(self) -> None:
        """Establish the next connection only after the one that follows it."""
        self._reordering = True

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        connection = _Connection(writer)
        self._live.add(connection)
        try:
            await self._in_order(connection, reader)
        except OSError:
            connection.reset()
        finally:
            await cancelled(connection.tasks)
            connection.reset()
            self._live.discard(connection)
            self._handling.discard(task)

    async def _in_order(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        if self._reordering:
            self._reordering, self._another = False, asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECOND_SECONDS):
                    await self._another.wait()
        await self._serve(connection, reader)

    async def _serve(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            from_server, connection.server = await self._to_server()
        self.connections_made += 1
        self.connected_at = asyncio.get_running_loop().time()
        self._another.set()
        up = self._pass(reader, connection.server, counted=True)
        down = self._pass(from_server, connection.client, counted=False)
        connection.tasks = [asyncio.create_task(up), asyncio.create_task(down)]
        # The side that has not ended may still receive data.
        await asyncio.gather(*connection.tasks)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        """Forward one direction until its sender ends it. Raises OSError if it breaks."""
        loop = asyncio.get_running_loop()
        blocks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_IN_FLIGHT_BLOCKS)

        async def read() -> None:
            block = b"-"
            while block:
                try:
                    block = await reader.read(_BLOCK)
                except OSError:  # the peer has reset it, so the other side is reset, too
                    writer.transport.abort()
                    block = b""
                await blocks.put((loop.time() + self.delay_seconds, block))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, block = await blocks.get()
                await asyncio.sleep(due - loop.time())
                await self._passing.wait()
                if not block:
                    break
                writer.write(block)
                await writer.drain()
                if counted:
                    self.bytes_passed += len(block)
                if self.bytes_per_second is not None:
                    await asyncio.sleep(len(block) / self.bytes_per_second)
            if not writer.is_closing():
                writer.write_eof()
        finally:
            await cancelled([reading])


class Proxy(_Passing):
    """Forwards TCP connections to (`host`, `port`)."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self.host = host
        self.port = port

    def address(self) -> tuple[str, int]:
        """The destination of the next connection. Raises OSError if it is unknown."""
        return self.host, self.port

    async def _to_server(self) -> _Streams:
        return await asyncio.open_connection(*self.address())

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen on a local port until the block ends, then cut the remaining connections."""
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        async with self._until_left(server):
            yield int(server.sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy in front of the server at `url`, and its own address."""
    address = urlsplit(url)
    assert address.hostname is not None and address.port is not None
    proxy = Proxy(address.hostname, address.port)
    async with proxy.listening() as port:
        yield proxy, f"http://127.0.0.1:{port}"


class UnixProxy(_Passing):
    """Forwards connections to the Unix socket `behind`. A cut is an end of stream to both peers."""

    def __init__(self, behind: Path) -> None:
        super().__init__()
        self.behind = behind

    async def _to_server(self) -> _Streams:
        return await asyncio.open_unix_connection(self.behind)

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Listen at `path` until the block ends, then cut the remaining connections.

        The proxy's socket replaces the file at `path` atomically, so that a socket there always
        listens.
        """
        draft = path.with_suffix(".proxy")
        server = await asyncio.start_unix_server(self._accepted, draft)
        async with self._until_left(server):
            draft.chmod(0o600)
            draft.rename(path)
            yield


def _linger_nothing(writer: asyncio.StreamWriter) -> None:
    """Let close() reset the connection instead of ending it in order."""
    found = writer.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
