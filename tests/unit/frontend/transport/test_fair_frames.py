"""Frames of one client are parsed in turns, and only as many as the application takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from uvicorn.server import ServerState

from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.http_protocol import ServerConfig
from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from auricle_testing import wire
from auricle_testing.server import eventually

pytestmark = pytest.mark.unit
READ = 1 << 18  # bytes that a socket returns at a time


class Wire(asyncio.Transport):
    """A fake socket that records the protocol's calls."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        """Do not close."""


class Connection:
    """A protocol whose application takes messages on request."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.over = False
        self.take = asyncio.Semaphore(0)
        self.accept = asyncio.Event()
        config = ServerConfig(
            self._app,
            connections=Connections(ConnectionLimits()),
            interface="asgi3",
            ws=WebSocketProtocol,
            lifespan="off",
            log_config=None,
        )
        config.load()
        self.wire = Wire()
        self.protocol = WebSocketProtocol(config, ServerState(), {})
        self.protocol.connection_made(self.wire)
        self.protocol.data_received(wire.handshake("/"))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await self.accept.wait()
        await send({"type": "websocket.accept"})
        while True:
            await self.take.acquire()
            if self.over:
                return
            self.taken.append((await receive()).get("bytes", b""))

    async def open(self) -> None:
        self.accept.set()
        await turns(10)
        assert b"101 Switching Protocols" in self.wire.written


@pytest.fixture
async def waiting() -> AsyncIterator[Connection]:
    """A connection whose handshake has not been answered yet."""
    subject = Connection()
    yield subject
    subject.over = True
    subject.accept.set()
    subject.take.release()
    await turns(10)


@pytest.fixture
async def subject(waiting: Connection) -> Connection:
    """An open connection."""
    await waiting.open()
    return waiting


async def turns(count: int) -> None:
    """Run some iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_frames_of_one_byte_are_not_all_parsed_at_once_and_none_is_lost(
    subject: Connection,
) -> None:
    sent = [bytes([i % 251]) for i in range(READ // 7)]
    subject.protocol.data_received(b"".join(wire.frame(wire.BINARY, data) for data in sent))
    await turns(100)
    assert subject.protocol.queue.qsize() < 200  # the application takes none
    assert not subject.wire.reading
    for _ in sent:
        subject.take.release()
    await eventually(lambda: len(subject.taken) == len(sent), seconds=60)
    assert subject.taken == sent
    assert subject.wire.reading


async def test_fragments_are_one_message_and_no_list_of_pieces(
    subject: Connection,
) -> None:
    data = bytes(range(256)) * 4
    head, _, rest = wire.fragments(data, 1).partition(wire.frame(0, b"\1", fin=False))
    empty = wire.frame(0, b"", fin=False)
    subject.protocol.data_received(head + 5_000 * empty + wire.frame(0, b"\1", fin=False) + rest)
    await turns(2_000)
    assert len(subject.protocol.frames) <= 1
    subject.take.release()
    await turns(10)
    assert subject.taken == [data]


async def test_frames_before_the_handshake_is_answered_wait_for_the_answer(
    waiting: Connection,
) -> None:
    """A ping in this state once raised an AssertionError in uvicorn."""
    waiting.protocol.data_received(wire.frame(wire.PING, b"x") + wire.frame(wire.BINARY, b"hi"))
    await turns(10)
    assert waiting.wire.written == b""
    await waiting.open()
    waiting.take.release()
    await turns(10)
    assert waiting.taken == [b"hi"]
