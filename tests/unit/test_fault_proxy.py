"""The fault suite's TCP proxy, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchmarks.faults import proxy as under_test
from benchmarks.faults.proxy import Proxy

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


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[Proxy, int, Echo]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1])
    async with asyncio.timeout(DEADLINE), proxy.listening() as port:
        try:
            yield proxy, port, echo
        finally:
            server.close()


async def connection(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_what_is_sent_arrives_and_is_answered_and_an_end_is_passed_on() -> None:
    async with proxied() as (proxy, port, _):
        reader, writer = await connection(port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert proxy.bytes_passed == 5
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


async def test_a_cut_resets_connections_and_new_ones_are_made() -> None:
    async with proxied() as (proxy, port, _):
        reader, writer = await connection(port)
        writer.write(b"one")
        await reader.readexactly(3)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        reader, again = await connection(port)
        again.write(b"two")
        assert await reader.readexactly(3) == b"two"
        for each in (writer, again):
            each.close()


async def test_what_is_sent_into_a_stall_arrives_once_it_is_over() -> None:
    async with proxied() as (proxy, port, echo):
        reader, writer = await connection(port)
        writer.write(b"a")
        await reader.readexactly(1)
        proxy.stall()
        writer.write(b"b")
        await writer.drain()
        other, second = await connection(port)  # accepted, though nothing passes
        second.write(b"c")
        await second.drain()
        answer = asyncio.create_task(reader.readexactly(1))
        _, waiting = await asyncio.wait({answer}, timeout=0.2)
        assert waiting and echo.heard == [b"a"]
        proxy.go_on()
        assert await answer == b"b"
        assert await other.readexactly(1) == b"c"
        for each in (writer, second):
            each.close()


async def test_half_open_connections_look_alive_until_they_are_reset() -> None:
    async with proxied() as (proxy, port, echo):
        reader, writer = await connection(port)
        writer.write(b"a")
        await reader.readexactly(1)
        proxy.stall()
        writer.write(b"lost")
        await writer.drain()
        proxy.cut()
        proxy.go_on()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        assert echo.heard == [b"a"]
        writer.close()


async def test_delay_and_slowness_lose_nothing_and_keep_the_order() -> None:
    async with proxied() as (proxy, port, _):
        proxy.delay_seconds = 0.05
        proxy.bytes_per_second = 200_000.0
        reader, writer = await connection(port)
        sent = bytes(range(256)) * 40
        for at in range(0, len(sent), 1000):
            writer.write(sent[at : at + 1000])
            await writer.drain()
        assert await reader.readexactly(len(sent)) == sent
        writer.close()


async def test_a_reordered_connection_is_made_after_the_next_one() -> None:
    async with proxied() as (proxy, port, _):
        proxy.reorder()
        first_reader, first = await connection(port)
        first.write(b"first")
        answer = asyncio.create_task(first_reader.readexactly(5))
        _, waiting = await asyncio.wait({answer}, timeout=0.2)
        assert waiting and proxy.connections_made == 0
        second_reader, second = await connection(port)
        second.write(b"second")
        assert await second_reader.readexactly(6) == b"second"
        assert await answer == b"first"
        for each in (first, second):
            each.close()


async def test_a_reordered_connection_is_made_in_the_end_without_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_test, "_SECOND_SECONDS", 0.05)
    async with proxied() as (proxy, port, _):
        proxy.reorder()
        reader, writer = await connection(port)
        writer.write(b"alone")
        assert await reader.readexactly(5) == b"alone"
        writer.close()


async def test_a_server_that_is_gone_looks_gone() -> None:
    proxy = Proxy("127.0.0.1", 1)  # nobody listens there
    async with asyncio.timeout(DEADLINE), proxy.listening() as port:
        reader, writer = await connection(port)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()
