"""A TCP proxy between a client and a server, whose connections can be cut at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from auricle.tasks import cancelled

_READ_BYTES = 1 << 16


class Proxy:
    """Passes bytes on in both directions. `url` is its address while `proxied`."""

    def __init__(self, server_url: str) -> None:
        address = urlsplit(server_url)
        self._server = (address.hostname, address.port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.url = ""

    def cut(self) -> None:
        """End all connections as a network does that has gone: with a reset, in both directions."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        to_server = None
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_server, to_server = await asyncio.open_connection(*self._server)
            self._writers |= {writer, to_server}
            ways = [
                asyncio.create_task(_pass_on(reader, to_server)),
                asyncio.create_task(_pass_on(from_server, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancelled(ways)
        finally:
            for one in {writer, to_server} - {None}:
                self._writers.discard(one)
                one.close()
            self._tasks.discard(task)

    async def close(self) -> None:
        """End everything."""
        await cancelled(list(self._tasks))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxied(server_url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of a server."""
    proxy = Proxy(server_url)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
