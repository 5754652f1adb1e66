"""The fault suite's proxies: TCP over loopback, and Unix sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.faults import proxy as under_test
from benchmarks.faults.proxy import Proxy, UnixProxy

pytestmark = pytest.mark.unit
DEADLINE = 30.0


class Echo:
    """A server that sends back what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1024):
                self.heard.append(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
# TCP connections that are cut are reset; Unix ones end.
LOST = (ConnectionResetError, asyncio.IncompleteReadError)


@dataclass
class Link:
    """A proxy before an echo, and how it is connected to."""

    proxy: Proxy | UnixProxy
    connected: Callable[[], Awaitable[Streams]]
    echo: Echo


@asynccontextmanager
async def over_tcp(_: Path) -> AsyncIterator[Link]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1])
    async with asyncio.timeout(DEADLINE), proxy.listening() as port:
        try:
            yield Link(proxy, lambda: asyncio.open_connection("127.0.0.1", port), echo)
        finally:
            server.close()


@asynccontextmanager
async def over_a_unix_socket(folder: Path) -> AsyncIterator[Link]:
    echo, path, behind = Echo(), folder / "a", folder / "a.behind"
    server = await asyncio.start_unix_server(echo.serve, behind)
    proxy = UnixProxy(behind)
    async with asyncio.timeout(DEADLINE), proxy.listening(path):
        try:
            yield Link(proxy, lambda: asyncio.open_unix_connection(path), echo)
        finally:
            server.close()


Proxied = Callable[[], AbstractAsyncContextManager[Link]]


@pytest.fixture(params=[over_tcp, over_a_unix_socket])
def proxied(request: pytest.FixtureRequest, tmp_path: Path) -> Proxied:
    return lambda: request.param(tmp_path)


async def test_what_is_sent_arrives_and_is_answered_and_an_end_is_passed_on(
    proxied: Proxied,
) -> None:
    async with proxied() as link:
        reader, writer = await link.connected()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert link.proxy.bytes_passed == 5
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_a_cut_resets_connections_and_new_ones_are_made(proxied: Proxied) -> None:
    async with proxied() as link:
        reader, writer = await link.connected()
        writer.write(b"one")
        await reader.readexactly(3)
        link.proxy.cut()
        with pytest.raises(LOST):
            await reader.readexactly(1)
        reader, again = await link.connected()
        again.write(b"two")
        assert await reader.readexactly(3) == b"two"
        for each in (writer, again):
            each.close()


async def test_what_is_sent_into_a_stall_arrives_once_it_is_over(proxied: Proxied) -> None:
    async with proxied() as link:
        reader, writer = await link.connected()
        writer.write(b"a")
        await reader.readexactly(1)
        link.proxy.stall()
        writer.write(b"b")
        await writer.drain()
        other, second = await link.connected()  # accepted, though nothing passes
        second.write(b"c")
        await second.drain()
        answer = asyncio.create_task(reader.readexactly(1))
        _, waiting = await asyncio.wait({answer}, timeout=0.2)
        assert waiting and link.echo.heard == [b"a"]
        link.proxy.go_on()
        assert await answer == b"b"
        assert await other.readexactly(1) == b"c"
        for each in (writer, second):
            each.close()


async def test_half_open_connections_look_alive_until_they_are_reset(proxied: Proxied) -> None:
    async with proxied() as link:
        reader, writer = await link.connected()
        writer.write(b"a")
        await reader.readexactly(1)
        link.proxy.stall()
        writer.write(b"lost")
        await writer.drain()
        link.proxy.cut()
        link.proxy.go_on()
        with pytest.raises(LOST):
            await reader.readexactly(1)
        assert link.echo.heard == [b"a"]
        writer.close()


async def test_delay_and_slowness_lose_nothing_and_keep_the_order(proxied: Proxied) -> None:
    async with proxied() as link:
        link.proxy.delay_seconds = 0.05
        link.proxy.bytes_per_second = 200_000.0
        reader, writer = await link.connected()
        sent = bytes(range(256)) * 40
        for at in range(0, len(sent), 1000):
            writer.write(sent[at : at + 1000])
            await writer.drain()
        assert await reader.readexactly(len(sent)) == sent
        writer.close()


async def test_a_reordered_connection_is_made_after_the_next_one(proxied: Proxied) -> None:
    async with proxied() as link:
        link.proxy.reorder()
        first_reader, first = await link.connected()
        first.write(b"first")
        answer = asyncio.create_task(first_reader.readexactly(5))
        _, waiting = await asyncio.wait({answer}, timeout=0.2)
        assert waiting and link.proxy.connections_made == 0
        second_reader, second = await link.connected()
        second.write(b"second")
        assert await second_reader.readexactly(6) == b"second"
        assert await answer == b"first"
        for each in (first, second):
            each.close()


async def test_a_reordered_connection_is_made_in_the_end_without_another(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "_SECOND_SECONDS", 0.05)
    async with proxied() as link:
        link.proxy.reorder()
        reader, writer = await link.connected()
        writer.write(b"alone")
        assert await reader.readexactly(5) == b"alone"
        writer.close()


async def test_a_server_that_is_gone_looks_gone() -> None:
    proxy = Proxy("127.0.0.1", 1)  # nobody listens there
    async with asyncio.timeout(DEADLINE), proxy.listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()


async def test_a_unix_socket_has_nothing_left_of_its_proxy_but_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    async with UnixProxy(tmp_path / "b").listening(path):
        assert path.is_socket() and path.stat().st_mode & 0o777 == 0o600
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""  # nobody listens behind it
        writer.close()
    assert names(tmp_path) == ["a"]


def names(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]
