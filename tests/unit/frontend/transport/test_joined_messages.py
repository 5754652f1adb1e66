"""A live client's small binary messages reach its session joined, and otherwise unchanged."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
import websockets
from fastapi import FastAPI, WebSocket
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from auricle.frontend.audio import holding
from auricle.frontend.transport.websocket_protocol import (
    FAILED,
    JOIN,
    MOST_FRAMES,
    PING,
    take_frames,
)
from tests.fakes.doors import Door, event_loop_policy
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
PACKET = 640
ALL = 1 << 62


class Listener:
    """Takes messages joined, with `enough` bytes; records each one's type and content."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.app = FastAPI()
        self.app.websocket("/")(self.serve)
        self.heard: list[tuple[str, Any]] = []
        self.ended: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.bytes_heard = 0
        self.take = asyncio.Event()
        self.take.set()
        self.ping: Callable[[Callable[[], None]], None]

    async def serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        while True:
            await self.take.wait()
            websocket.scope["state"][JOIN](self.enough)
            self.ping = websocket.scope["state"][PING]
            message = await websocket.receive()
            if message["type"] != "websocket.receive":
                self.ended.put_nowait(dict(message))
                return
            text, data = message.get("text"), message.get("bytes")
            self.bytes_heard += len(data or b"")
            self.heard.append(("text", text) if text is not None else ("bytes", data))

    @property
    def audio(self) -> bytes:
        return b"".join(data for kind, data in self.heard if kind == "bytes")


def connected(door: Door, compression: Any = None) -> websockets.connect:
    return websockets.connect(f"ws://127.0.0.1:{door.port}/", compression=compression)


async def say(
    door: Door, sent: list[bytes | str | list[bytes]], compression: str | None = None
) -> None:
    async with connected(door, compression) as client:
        for message in sent:
            await client.send(message)


def packets(count: int) -> list[bytes | str | list[bytes]]:
    return [os.urandom(PACKET) for _ in range(count)]


@pytest.fixture(autouse=True)
def no_hold_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little data waits, even on a slow machine."""
    for name in ("_QUIET_SECONDS", "_LONGEST_SECONDS"):
        monkeypatch.setattr(holding, name, 3_600.0)


async def test_packets_arrive_together_once_they_are_enough() -> None:
    door, listener = Door(), Listener(enough=4 * PACKET)
    sent = ["begin", *packets(8)]
    async with door.serving(listener.app), connected(door) as client:
        for message in sent[:4]:
            await client.send(message)
        await (await client.ping())  # all of it has arrived, and is not enough
        assert listener.heard == [("text", "begin")]
        for message in sent[4:]:
            await client.send(message)
        await until(lambda: len(listener.audio) == 8 * PACKET)
    assert [len(data) for _, data in listener.heard[1:]] == [4 * PACKET, 4 * PACKET]
    assert listener.audio == b"".join(m for m in sent[1:] if isinstance(m, bytes))


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_what_is_said_before_a_text_message_or_the_close_comes_before_it(
    compression: str | None,
) -> None:
    door, listener = Door(), Listener(enough=ALL)
    first, second = os.urandom(5), [os.urandom(3), b"", os.urandom(70_000)]
    async with door.serving(listener.app):
        await say(door, [first, second, "end", first], compression)
        ended = await listener.ended.get()
    assert listener.heard == [
        ("bytes", first + b"".join(second)), ("text", "end"), ("bytes", first)
    ]  # fmt: skip
    assert ended["code"] == 1000


async def test_a_pong_comes_after_what_was_sent_before_it_though_that_is_not_enough() -> None:
    door, listener, pongs = Door(), Listener(enough=ALL), list[bytes]()
    async with door.serving(listener.app), connected(door) as client:
        await client.send("begin")
        await until(lambda: bool(listener.heard))
        client.transport.pause_reading()  # the ping is on its way
        for _ in range(2):
            listener.ping(lambda: pongs.append(listener.audio))
        await client.send(b"little")
        await client.pong(b"other")
        await client.send("more")
        await until(lambda: len(listener.heard) == 3)
        await client.send(b", and later")
        assert pongs == []
        client.transport.resume_reading()
        await until(lambda: len(pongs) == 2)
        await until(lambda: listener.audio == b"little, and later")
        await client.pong(b"alive")  # nothing awaits it
        await client.send("end")
        await until(lambda: listener.heard[-1] == ("text", "end"))
    assert pongs == [b"little"] * 2


async def test_what_nothing_follows_is_delivered_though_it_is_not_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "_QUIET_SECONDS", 0.01)
    door, listener = Door(), Listener(enough=ALL)
    async with door.serving(listener.app), connected(door) as client:
        sent = b""
        for data in (b"little", os.urandom(PACKET), [b"in ", b"fragments"]):
            await client.send(data)
            sent += data if isinstance(data, bytes) else b"".join(data)
            await until(lambda: len(listener.audio) == len(sent))  # noqa: B023
        (connection,) = door.connections._open
    assert listener.audio == sent
    assert connection._held._timer is None  # type: ignore[attr-defined]


async def test_what_was_not_enough_is_there_when_less_is_asked_for() -> None:
    door, listener = Door(), Listener(enough=ALL)
    async with door.serving(listener.app), connected(door) as client:
        await client.send(b"begin")
        await client.send(b"little")
        await (await client.ping())
        (connection,) = door.connections._open
        assert not listener.heard
        assert connection.join(0)  # type: ignore[attr-defined]
        await until(lambda: listener.heard)
        assert not connection.join(0)  # type: ignore[attr-defined]  # there is nothing more
    assert listener.heard == [("bytes", b"beginlittle")]


@pytest.mark.parametrize(
    ("breaking", "code"),
    [
        (b"\x82\x05hello", 1002),  # without a mask
        (b"\xc2\x80" + bytes(4), 1002),  # compressed without an agreement
        (b"\x80\x80" + bytes(4), 1002),  # the end of a message that has not begun
        (b"\x82\xff" + struct.pack("!Q", 1 << 30) + bytes(4), 1009),
        (b"\x82\xfe" + struct.pack("!H", 2_000) + bytes(4 + 2_000), 1009),
    ],
)
async def test_a_client_that_breaks_the_protocol_among_its_audio_is_told_so(
    breaking: bytes, code: int
) -> None:
    door, listener = Door(), Listener(enough=ALL)
    audio = bytes(Frame(Opcode.BINARY, b"audio").serialize(mask=True))
    async with door.serving(listener.app, ws_max_size=1_000):
        client = await connected(door)
        await client.send("begin")
        client.transport.write(3 * audio + breaking)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        ended = await listener.ended.get()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, ended["code"], ended[FAILED]) == (code, code, True)
    assert listener.heard == [("text", "begin"), ("bytes", 3 * b"audio")]


async def test_an_empty_message_comes_by_itself() -> None:
    door, listener = Door(), Listener(enough=ALL)
    async with door.serving(listener.app):
        await say(door, [b"be", b"fore", b"", b"after"])
        await listener.ended.get()
    assert listener.heard == [("bytes", b"before"), ("bytes", b""), ("bytes", b"after")]


async def test_audio_that_is_not_taken_stays_in_the_socket() -> None:
    door, listener = Door(), Listener(enough=PACKET)
    async with door.serving(listener.app):
        client = await connected(door)
        await client.send("begin")
        await until(lambda: listener.heard)
        listener.take.clear()
        sent = [bytes([i % 251]) * PACKET for i in range(16_000)]  # 10 MB
        client.transport.write(b"".join(wire_of("binary", data) for data in sent))
        (connection,) = door.connections._open
        await until(lambda: connection.read_paused)  # type: ignore[attr-defined]
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert connection.queue.qsize() <= 2  # type: ignore[attr-defined]
        assert len(connection._unread) < 1 << 20  # type: ignore[attr-defined]
        listener.take.set()
        await until(lambda: listener.bytes_heard == len(sent) * PACKET)
        assert listener.audio == b"".join(sent)
        await client.close()


# ── frames, however they are cut ─────────────────────────────────────────────

FRAMES = st.lists(
    st.tuples(st.sampled_from(["binary", "text", "ping", "fragments"]), st.binary(max_size=300)),
    max_size=20,
)


def wire_of(kind: str, data: bytes) -> bytes:
    if kind == "fragments":
        parts = [data[:10], data[10:]]
        opcodes = [(Opcode.BINARY, False), (Opcode.CONT, True)]
        return b"".join(
            Frame(opcode, part, fin).serialize(mask=True)
            for part, (opcode, fin) in zip(parts, opcodes, strict=True)
        )
    opcode = {"binary": Opcode.BINARY, "text": Opcode.TEXT, "ping": Opcode.PING}[kind]
    data = b"text" if kind == "text" else data[:125] if kind == "ping" else data
    return bytes(Frame(opcode, data).serialize(mask=True))


@given(FRAMES, st.integers(1, 2_000))
def test_only_whole_plain_frames_are_taken_and_each_once(
    frames: list[tuple[str, bytes]], cut: int
) -> None:
    wire = b"".join(wire_of(kind, data) for kind, data in frames)[:cut]
    plain, found = [], bytearray()
    used, partial = take_frames(wire, found, enough=ALL, largest=1 << 20)
    for kind, data in frames:
        if (
            kind != "binary"
            or not data
            or sum(len(wire_of("binary", d)) for d in [*plain, data]) > cut
        ):
            break
        plain.append(data)
    assert found == b"".join(plain)
    assert used == sum(len(wire_of("binary", data)) for data in plain)
    following = frames[len(plain)] if len(plain) < len(frames) else ("", b"")
    # A message may be empty until its length has come.
    begun = following[0] == "binary" and (following[1] or used + 1 == len(wire))
    assert partial == bool(begun and used < len(wire))


def test_no_more_frames_are_taken_at_a_time_than_others_can_wait_for() -> None:
    wire = wire_of("binary", b"x") * 1_000
    assert take_frames(wire, bytearray(), enough=ALL, largest=9).used == 7 * MOST_FRAMES
    found = bytearray()
    assert take_frames(wire, found, enough=5, largest=9).used == 7 * 5
    assert found == b"xxxxx"


async def test_a_stream_cut_anywhere_is_the_same_stream() -> None:
    dice = random.Random(7)
    frames = [
        (dice.choice(["binary"] * 6 + ["text", "ping", "fragments"]), dice.randbytes(PACKET))
        for _ in range(300)
    ]
    wire = b"".join(wire_of(kind, data) for kind, data in frames)
    door, listener = Door(), Listener(enough=3_000)
    async with door.serving(listener.app):
        client = await connected(door)
        await client.send("begin")
        at = 0
        while at < len(wire):
            size = dice.choice([1, 3, 7, 200, 1_460, 9_000])
            client.transport.write(wire[at : at + size])
            at += size
            await asyncio.sleep(0)
        await client.send("end")
        await until(lambda: listener.heard and listener.heard[-1] == ("text", "end"))
        await client.close()
    said = b"".join(data for kind, data in frames if kind in ("binary", "fragments"))
    assert listener.audio == said
