"""WebSocket messages of all sizes and forms, over real connections."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from typing import Any

import pytest
import websockets
from fastapi import FastAPI, WebSocket
from starlette.websockets import WebSocketState

from auricle.frontend.transport.connections import ConnectionLimits
from auricle.frontend.transport.websocket_protocol import FAILED
from tests.fakes.doors import Door, event_loop_policy
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
MAX = 1 << 20
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: " + base64.b64encode(bytes(16)) + b"\r\nsec-websocket-version: 13\r\n\r\n"
)


class Echo:
    """Answers each message with its type and size; `ended` has the disconnect messages."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.app.websocket("/")(self.serve)
        self.ended: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.hold = asyncio.Event()
        self.hold.set()
        self.most_waiting = 0

    async def serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        while True:
            await self.hold.wait()
            message = await websocket.receive()
            if message["type"] != "websocket.receive":
                self.ended.put_nowait(dict(message))
                return
            text, data = message.get("text"), message.get("bytes")
            answer = f"text {len(text)}" if text is not None else f"bytes {len(data or b'')}"
            if websocket.application_state is WebSocketState.CONNECTED:
                await websocket.send_text(answer)


def message(size: int, kind: str) -> str | bytes:
    """Random bytes, so that compression does not make it smaller."""
    return (
        os.urandom(size) if kind == "bytes" else base64.b64encode(os.urandom(size))[:size].decode()
    )


def parts(whole: str | bytes, count: int) -> Any:
    step = -(-len(whole) // count)
    return whole if count == 1 else [whole[i : i + step] for i in range(0, len(whole), step)]


def frame(opcode: int, data: bytes, *, fin: bool = True) -> bytes:
    size = (
        struct.pack("!B", 0x80 | len(data))
        if len(data) < 126
        else struct.pack("!BQ", 0x80 | 127, len(data))
    )
    return bytes([(0x80 if fin else 0) | opcode]) + size + bytes(4) + data


async def read_frames(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None = None
) -> list[tuple[int, bytes]]:
    """All frames until the connection is closed; with a `writer`, answers a close frame."""
    found = []
    while head := await reader.read(2):
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        found.append((head[0] & 15, await reader.readexactly(size)))
        if writer is not None and found[-1][0] == 8:
            writer.write(frame(8, found[-1][1][:2]))
    return found


async def handshake(door: Door) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await door.connect()
    writer.write(HANDSHAKE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return reader, writer


@pytest.mark.parametrize(
    ("header", "instead"),
    [
        (b"upgrade: websocket", b"upgrade: " + "é".encode() * 8_000),
        (b"connection: upgrade", b"connection: " + b"x" * 8_000),
        (b"sec-websocket-version: 13", b"sec-websocket-version: " + b"9" * 8_000),
    ],
)
async def test_a_handshake_that_is_none_is_told_what_one_needs_and_not_its_own_headers(
    header: bytes, instead: bytes
) -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        reader, writer = await door.connect()
        bad = HANDSHAKE.replace(header, instead)
        # One of several Upgrade headers makes it a handshake.
        if header.startswith(b"upgrade"):
            bad = bad.replace(b"connection: upgrade", b"connection: upgrade\r\nupgrade: websocket")
        writer.write(bad)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()  # the server waits for the next request
        answer += await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 4")
    assert len(answer) < 1_000


@pytest.mark.parametrize("fragments", [1, 3, 200])
@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize("kind", ["text", "bytes"])
async def test_a_message_may_have_exactly_the_documented_size(
    kind: str, compression: Any, fragments: int
) -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app, ws_max_size=MAX):
        address = f"ws://127.0.0.1:{door.port}/"
        async with websockets.connect(address, compression=compression) as client:
            for size in (MAX - 1, MAX, 1):
                await client.send(parts(message(size, kind), fragments))
                assert await client.recv() == f"{kind} {size}"
        assert not (await echo.ended.get()).get(FAILED)


@pytest.mark.parametrize("size", [MAX + 1, 3 * MAX])
@pytest.mark.parametrize("fragments", [1, 3, 200])
@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize("kind", ["text", "bytes"])
async def test_a_larger_message_is_answered_with_1009_and_a_close_frame(
    kind: str, compression: Any, fragments: int, size: int
) -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app, ws_max_size=MAX):
        address = f"ws://127.0.0.1:{door.port}/"
        async with websockets.connect(address, compression=compression) as client:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await client.send(parts(message(size, kind), fragments))
                await client.recv()
        assert closed.value.rcvd is not None, "no close frame"
        assert closed.value.rcvd.code == 1009
        assert closed.value.rcvd.reason == f"the message is larger than the {MAX} bytes it may have"
        ended = await echo.ended.get()
    assert (ended["code"], ended[FAILED]) == (1009, True)


async def test_a_client_that_goes_on_sending_still_reads_why_it_was_closed() -> None:
    """If the server closed at once, the connection would be reset while the client sends.

    The client would then read nothing.
    """
    door, echo = Door(), Echo()
    async with door.serving(echo.app, ws_max_size=MAX):
        reader, writer = await handshake(door)
        writer.write(frame(2, bytes(32 * MAX)))
        await writer.drain()
        ((opcode, data),) = await read_frames(reader)
        assert (opcode, int.from_bytes(data[:2])) == (8, 1009)
        writer.close()


async def test_a_bomb_is_not_unpacked() -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app, ws_max_size=MAX):
        async with websockets.connect(f"ws://127.0.0.1:{door.port}/") as client:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await client.send(bytes(20 * MAX))
                await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(1, b"\xff\xfe"), 1007),
        (frame(1, b"\xf0\x9f", fin=False) + frame(0, b"\x98", fin=True), 1007),
        (frame(0, b"x"), 1002),
        (frame(1, b"x", fin=False) + frame(2, b"x"), 1002),
        (b"\x8f\x80" + bytes(4), 1002),
        (b"garbage " * 100, 1002),
    ],
)
async def test_a_client_that_breaks_the_protocol_gets_a_close_frame_and_no_log_lines(
    sent: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        reader, writer = await handshake(door)
        writer.write(sent)
        ((opcode, data),) = await read_frames(reader)
        assert (opcode, int.from_bytes(data[:2])) == (8, code)
        writer.close()
        assert (await echo.ended.get())["code"] == code
    assert not caplog.records


async def test_pings_are_answered() -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        client = await websockets.connect(f"ws://127.0.0.1:{door.port}/")
        await (await client.ping(b"hello"))
        await client.close()


async def test_a_flood_of_pings_whose_answers_are_not_read_is_not_kept() -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        reader, writer = await handshake(door)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        pings = frame(9, bytes(125)) * 2_000
        (connection,) = door.connections._open
        transport = connection.transport  # type: ignore[attr-defined]
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        most = 0
        for _ in range(15):  # 4 MB
            writer.write(pings)
            await writer.drain()
            most = max(most, transport.get_write_buffer_size())
        assert most < 1 << 20
        writer.write(frame(2, b"x"))
        await writer.drain()
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        answered = bytearray()
        while not answered.endswith(b"bytes 1"):
            answered += await reader.read(1 << 20)
        writer.close()


async def test_tiny_messages_wait_as_bytes_until_they_are_taken() -> None:
    """A client must not create hundreds of thousands of objects from a megabyte."""
    door, echo = Door(), Echo()
    echo.hold.clear()
    async with door.serving(echo.app):
        reader, writer = await handshake(door)
        writer.write(frame(2, b"x") * 30_000)
        (connection,) = door.connections._open
        await until(lambda: connection.read_paused)  # type: ignore[attr-defined]
        for _ in range(1_000):  # more iterations than all messages would need
            await asyncio.sleep(0)
        assert connection.queue.qsize() < 500  # type: ignore[attr-defined]
        echo.hold.set()
        for _ in range(30_000):
            assert await reader.readexactly(9) == b"\x81\x07bytes 1"
        writer.close()


async def test_a_million_empty_fragments_are_one_message() -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        reader, writer = await handshake(door)
        writer.write(frame(2, b"a", fin=False))
        for _ in range(10):
            writer.write(frame(0, b"", fin=False) * 10_000)
            await writer.drain()
        writer.write(frame(0, b"b"))
        assert await reader.readexactly(9) == b"\x81\x07bytes 2"
        writer.close()


async def test_frames_sent_before_the_handshake_is_answered_are_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    accepting = asyncio.Event()
    app = FastAPI()

    @app.websocket("/")
    async def later(websocket: WebSocket) -> None:
        await websocket.receive()
        await accepting.wait()
        await websocket.accept()
        await websocket.receive()

    door = Door()
    async with door.serving(app):
        reader, writer = await door.connect()
        writer.write(HANDSHAKE)
        await until(lambda: any(hasattr(c, "handshake_initiated") for c in door.connections._open))
        writer.write(b"garbage " * 100)
        (connection,) = door.connections._open
        await until(lambda: connection.read_paused)  # type: ignore[attr-defined]
        accepting.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        ((opcode, data),) = await read_frames(reader)
        assert (opcode, int.from_bytes(data[:2])) == (8, 1002)
        writer.close()
    assert not caplog.records


@pytest.mark.parametrize("header", [b"x: y\r\n" * 200, b"x: " + b"y" * 10_000 + b"\r\n"])
async def test_a_handshake_that_cannot_be_read_is_answered(header: bytes) -> None:
    door, echo = Door(), Echo()
    async with door.serving(echo.app):
        answer = await door.ask(HANDSHAKE.replace(b"host: x\r\n", b"host: x\r\n" + header))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"malformed WebSocket handshake" in answer


def never_silent() -> FastAPI:
    """Sends 20 MB, then closes with 1008."""
    app = FastAPI()

    @app.websocket("/")
    async def chatter(websocket: WebSocket) -> None:
        await websocket.accept()
        for _ in range(200):
            await websocket.send_bytes(os.urandom(100_000))
        await websocket.close(1008, "too slow")

    return app


async def test_a_client_that_did_not_read_is_told_why_its_session_ends() -> None:
    """The session notices it after `reader_seconds`, so the connection must last longer."""
    door = Door(ConnectionLimits(reader_seconds=5.0))
    async with door.serving(never_silent()):
        reader, writer = await handshake(door)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        (connection,) = door.connections._open
        await until(lambda: connection._watch._stalled_at is not None)  # type: ignore[attr-defined]
        door.after(2 * 5.0 + 5.0)  # the session's error, also unread, and its close
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert (await read_frames(reader, writer))[-1] == (8, struct.pack("!H", 1008) + b"too slow")
        writer.close()


async def test_a_connection_that_cannot_be_closed_is_cut() -> None:
    """Its client reads nothing, so the rest is never sent."""
    door = Door(ConnectionLimits(reader_seconds=5.0))
    async with door.serving(never_silent()):
        reader, writer = await handshake(door)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        (connection,) = door.connections._open
        await until(lambda: connection._watch._stalled_at is not None)  # type: ignore[attr-defined]
        door.after(19.9)
        assert len(door.connections) == 1
        door.after(0.2)
        await until(lambda: not len(door.connections))
        writer.close()
