"""The gRPC port against clients without a key: sizes, numbers and floods, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest

from auricle.core.errors import RateLimited
from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.grpc import frames, gate
from auricle.frontend.transport.grpc.frames import FrameKind, Http2Reader, frame, reset
from auricle.frontend.transport.grpc.schema import message
from auricle.frontend.transport.grpc.streams import UNADMITTED_BYTES, RpcCalls
from auricle.frontend.transport.slots import NetworkLimit, NetworkRates
from auricle_testing.http2 import (
    EMPTY_SETTINGS,
    PINGED,
    call,
    connected,
    data,
    is_closed,
    prefix,
    received,
)
from tests.fakes.clock import Clock
from tests.fakes.doors import event_loop_policy
from tests.fakes.front import Front
from tests.fakes.rpc import audio, bearer, calling, ended, first, stream, unary
from tests.waiting import until

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.unit
HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
KSERVE = "inference.GRPCInferenceService/ModelStreamInfer"
MiB = 1 << 20


class Door:
    """A frontend's gRPC port."""

    def __init__(self, front: Front, channel: grpc.aio.Channel, port: int) -> None:
        self.connections = front.connections
        self.channel = channel
        self.port = port


@asynccontextmanager
async def served(front: Front | None = None) -> AsyncIterator[Door]:
    front = front or Front()
    async with asyncio.timeout(120), calling(front) as channel:
        yield Door(front, channel, front.grpc_port)


async def told(reader: asyncio.StreamReader, *streams: int) -> str:
    """The frames of the first stream that is reset, up to its reset, as text."""
    said = dict.fromkeys(streams, b"")
    while True:
        kind, _, number, payload = await received(reader)
        if number not in said:
            continue
        if kind == FrameKind.RST_STREAM:
            return said[number].decode("latin-1")
        said[number] += payload


# ── bytes ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", [REFLECTION, f"{HEALTH}/Check", f"{HEALTH}/Watch"])
@pytest.mark.parametrize("size", [UNADMITTED_BYTES + 1, 8 * MiB])
async def test_a_message_without_a_key_is_small(method: str, size: int) -> None:
    async with served() as door:
        asking = door.channel.stream_stream(f"/{method}")()
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await asking.write(bytes(size))
        code, said = await ended(asking)
        assert code == "RESOURCE_EXHAUSTED"
        assert said == f"a message of the call has {size} bytes, and may have 65536"
        await until(lambda: door.connections.held.total == 0)
        assert await unary(door.channel, f"{HEALTH}/Check")  # the connection still works


@pytest.mark.parametrize("method", [KSERVE, REFLECTION, f"{HEALTH}/Check"])
async def test_a_message_beyond_any_size_is_refused_before_it_comes(method: str) -> None:
    """gRPC's library would receive all of it first."""
    async with served() as door, connected(door.port) as (reader, writer):
        writer.write(call(1, method) + data(1, prefix((1 << 32) - 1)))
        assert "has 4294967295 bytes, and may have 16777216" in await told(reader, 1)


async def test_a_live_session_has_messages_of_bounded_size() -> None:
    front = Front(grpc_max_message_bytes=1 * MiB)
    async with served(front) as door:
        live = stream(door.channel)
        await live.write(first())
        await live.write(audio(bytes(900_000)))
        await front.processors.opened.acquire()
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await live.write(audio(bytes(2 * MiB)))
        code, said = await ended(live)
        assert (code, "and may have 1048576" in said) == ("RESOURCE_EXHAUSTED", True)


async def test_messages_that_are_not_complete_hold_a_bounded_number_of_bytes() -> None:
    front = Front(connection_limits=ConnectionLimits(unadmitted_bytes=4 * MiB))
    begun = call(1, REFLECTION) + data(1, prefix(UNADMITTED_BYTES) + bytes(60_000))
    async with served(front) as door, AsyncExitStack() as stack:
        for number in range(1, 9):
            _, writer = await stack.enter_async_context(connected(door.port))
            writer.write(begun)
            await until(lambda number=number: door.connections.held.total >= number * 60_000)
        reader, writer = await stack.enter_async_context(connected(door.port))
        writer.write(begun)
        assert "may have 524288 bytes together" in await told(reader, 1)
        assert door.connections.held.total <= 524_288


async def test_a_compressed_message_is_refused() -> None:
    async with served() as door:
        request = message(f"{HEALTH}CheckRequest")(service="x" * 10_000).SerializeToString()
        checking = door.channel.unary_unary(f"/{HEALTH}/Check")(
            request, compression=grpc.Compression.Gzip, timeout=60
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await checking
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_client_with_a_key_may_begin_with_a_large_message() -> None:
    secret, entry = new_key("acme")
    async with served(Front([entry])) as door:
        held = door.connections.held
        async with connected(door.port) as (_, writer):
            writer.write(call(1, KSERVE, secret) + data(1, prefix(1 * MiB) + bytes(60_000)))
            await until(lambda: held._held["key acme"] > 60_000)
        await until(lambda: held.total == 0)
        asking = door.channel.stream_stream(f"/{KSERVE}")(metadata=bearer(secret), timeout=60)
        await asking.write(bytes(1 * MiB))
        assert (await ended(asking))[0] == "INVALID_ARGUMENT"  # it was received


# ── numbers ─────────────────────────────────────────────────────────────────


async def test_one_address_has_so_many_watches_and_is_probed_still() -> None:
    async with served() as door:
        watch = door.channel.unary_stream(f"/{HEALTH}/Watch")
        watches = [watch(b"") for _ in range(64)]
        for one in watches:
            await one.read()
        code, said = await ended(watch(b""))
        assert code == "RESOURCE_EXHAUSTED"
        assert said == "you have 64 streams without a key open; end one first"
        assert await unary(door.channel, f"{HEALTH}/Check")
        watches[0].cancel()
        another = watch(b"")
        while not await another.read():
            another = watch(b"")
        for one in (*watches, another):
            one.cancel()


async def test_calls_are_served_while_other_addresses_begin_thousands() -> None:
    """gRPC's library cancels calls at random if too many wait for it."""
    watches = [
        call(n, f"{HEALTH}/Watch") + data(n, prefix(0), ends=True) for n in range(1, 1_800, 2)
    ]
    async with served() as door, AsyncExitStack() as stack:
        for number in range(2, 8):
            _, writer = await stack.enter_async_context(connected(door.port, f"127.0.0.{number}"))
            writer.write(b"".join(watches))
        for _ in range(50):
            assert await unary(door.channel, f"{HEALTH}/Check")


async def test_calls_beyond_those_that_may_wait_are_refused_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "_WAITING_CALLS", 2)
    check = f"{HEALTH}/Check"
    begun = call(1, REFLECTION)
    numbers = range(3, 101, 2)
    sent = [call(n, check) + data(n, prefix(0), ends=True) for n in numbers]
    async with served() as door, connected(door.port) as (reader, writer):
        # At once, so that most of them wait; some may be served before the last are read.
        writer.write(b"".join((begun, *sent)))
        assert "you have 2 new calls open; end one first" in await told(reader, *numbers)
        writer.write(call(101, check) + data(101, prefix(0), ends=True))
        while (await received(reader))[2] != 101:  # the connection still works
            pass
        assert await unary(door.channel, check)


async def test_connections_count_among_all_others() -> None:
    front = Front(connection_limits=ConnectionLimits(per_address=2))
    async with served(front) as door, AsyncExitStack() as stack:
        for number in (1, 2):
            await stack.enter_async_context(connected(door.port))
            await until(lambda number=number: len(door.connections) == number)
        reader, _ = await stack.enter_async_context(connected(door.port))
        assert await is_closed(reader) == b""


async def test_idle_connections_make_room_and_live_calls_are_kept() -> None:
    front = Front(connection_limits=ConnectionLimits(most=3))
    async with served(front) as door, AsyncExitStack() as stack:
        live = stream(door.channel)
        await live.write(first())
        await live.write(audio())
        await front.processors.opened.acquire()
        watching, writer = await stack.enter_async_context(connected(door.port))
        writer.write(call(1, f"{HEALTH}/Watch") + data(1, prefix(0), ends=True))
        while (await received(watching))[0] != FrameKind.HEADERS:
            pass
        idle, _ = await stack.enter_async_context(connected(door.port))
        await until(lambda: len(door.connections) == 3)
        for closed in (watching, idle):
            await stack.enter_async_context(connected(door.port))
            await is_closed(closed)
        assert not live.done()
        live.cancel()


# ── floods ──────────────────────────────────────────────────────────────────


FLOODS = {
    "pings": PINGED * 6_000,
    "settings": EMPTY_SETTINGS * 6_000,
    "data": call(1, REFLECTION) + frame(FrameKind.DATA, 0, 1) * 6_000,
    "resets": reset(1, 8) * 6_000,
    "calls": b"".join(call(n, "x/y") + reset(n, 8) for n in range(1, 6_000, 2)),
    "headers": frame(FrameKind.HEADERS, 0, 1) + frame(FrameKind.CONTINUATION, 0, 1) * 6_000,
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_frames_without_data_ends_the_connection(flood: str) -> None:
    front = Front(connection_limits=ConnectionLimits(per_second=10.0))
    async with served(front) as door, connected(door.port) as (reader, writer):
        writer.write(FLOODS[flood])
        await is_closed(reader)
        assert front.connections_ended == ["flood"]
        async with connected(door.port) as (again, _):
            assert await is_closed(again) == b""  # it has to wait


async def test_few_bytes_are_received_before_the_library_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections: list[gate.GateConnection] = []
    reached = asyncio.Event()
    connect = gate.GateConnection._connect

    async def later(connection: gate.GateConnection) -> None:
        connections.append(connection)
        await reached.wait()
        await connect(connection)

    monkeypatch.setattr(gate.GateConnection, "_connect", later)
    async with served() as door, connected(door.port) as (reader, writer):
        writer.write(PINGED * 1_000_000)  # 17 MB
        await until(lambda: bool(connections and connections[0]._rest))
        await until(lambda: not connections[0]._transport.is_reading())
        assert len(connections[0]._rest) < MiB
        reached.set()
        await is_closed(reader)


def test_a_new_call_counts_as_many_frames() -> None:
    """The library makes the whole call before it sees its reset, or refuses it."""
    connections = Connections(ConnectionLimits(), Clock())
    rates = NetworkRates(2_000.0, "frames", Clock())
    client = cast(Any, SimpleNamespace(client=("10.0.0.1", 1), refused=lambda _error: None))
    nothing = cast(Any, (lambda _frame: None, lambda _frame: None))
    waiting = NetworkLimit(512, "calls")
    calls = RpcCalls(connections, client, MiB, nothing, lambda _: ("x", "1"), rates, waiting)
    reader = Http2Reader(calls.from_client)
    begun = [call(stream, "x/y") + reset(stream, 8) for stream in range(1, 801, 2)]
    with pytest.raises(RateLimited):  # at 800 frames of the 4,000 that are free
        reader.read(b"".join(begun), 0, [], 1_000)


def beginning(path: bytes) -> bytes:
    """The frame that begins a call; the path is not Huffman-coded."""
    whole = call(1, "x" * len(path))
    return whole.replace(b"/" + b"x" * len(path), b"/" + path)


ODD_HEADERS = {
    "path": (beginning(b"grpc.health.v1.Health/Wat\xff\xff"), "not ASCII"),
    "length": (frame(FrameKind.HEADERS, frames.END_HEADERS, 1, b"\0\x7f\xff"), "cannot be decoded"),
    "padding": (
        frame(FrameKind.HEADERS, frames.END_HEADERS | frames.PADDED, 1, b"\x02\x80xx"),
        "cannot be decoded",
    ),
    "interrupted": (
        frame(FrameKind.HEADERS, 0, 1, beginning(b"a/\xff")[9:]) + call(3, "x/y"),
        "are interrupted, or continue none",
    ),
    "another stream": (
        frame(FrameKind.HEADERS, 0, 1) + frame(FrameKind.CONTINUATION, frames.END_HEADERS, 3),
        "are interrupted, or continue none",
    ),
    "no beginning": (frame(FrameKind.CONTINUATION, 4, 1), "are interrupted, or continue none"),
    "size": (frame(FrameKind.HEADERS, 0, 1, bytes(16_385)), "more than 16384 bytes"),
}


async def test_headers_that_stay_incomplete_do_not_reach_the_library() -> None:
    async with served() as door:
        async with connected(door.port) as (_, writer):
            writer.write(frame(FrameKind.HEADERS, 0, 1, beginning(b"a/\xff")[9:]))
            await until(lambda: len(door.connections) == 1)
            assert await unary(door.channel, f"{HEALTH}/Check")
        await until(lambda: len(door.connections) == 1)
        assert await unary(door.channel, f"{HEALTH}/Check")


@pytest.mark.parametrize("odd", ODD_HEADERS)
async def test_odd_headers_end_their_connection_and_nothing_else(odd: str) -> None:
    """gRPC's library would end its whole server if a path is not UTF-8."""
    sent, said = ODD_HEADERS[odd]
    async with served() as door:
        async with connected(door.port) as (reader, writer):
            writer.write(sent)
            await writer.drain()
            assert said.encode() in await is_closed(reader)
        assert await unary(door.channel, f"{HEALTH}/Check")


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" * 9])
async def test_what_is_not_http2_is_closed(garbage: bytes) -> None:
    async with served() as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(garbage)
        await is_closed(reader)
        await until(lambda: len(door.connections) == 0)
        writer.close()


async def test_a_client_that_sends_nothing_is_closed() -> None:
    clock = [0.0]
    front = Front(connection_limits=ConnectionLimits(head_seconds=10.0))
    front.connections.clock = lambda: clock[0]
    async with served(front) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        await until(lambda: len(door.connections) == 1)
        clock[0] = 9.0
        door.connections.check_deadlines()
        assert len(door.connections) == 1
        clock[0] = 10.5
        door.connections.check_deadlines()
        assert await is_closed(reader) == b""
        writer.close()


async def test_calls_are_served_however_their_frames_are_cut() -> None:
    async with served() as door, connected(door.port) as (reader, writer):
        sent = call(1, f"{HEALTH}/Check") + data(1, prefix(0), ends=True)
        for at in range(len(sent)):
            writer.write(sent[at : at + 1])
            await writer.drain()
        answered: list[Any] = []
        while not answered or not answered[-1][1] & frames.END_STREAM:
            kind, flags, number, payload = await received(reader)
            if number == 1 and kind in (FrameKind.HEADERS, FrameKind.DATA):
                answered.append((kind, flags, payload))
        assert [kind for kind, *_ in answered] == [
            FrameKind.HEADERS,
            FrameKind.DATA,
            FrameKind.HEADERS,
        ]


async def test_nothing_is_left_of_calls_that_ended() -> None:
    front = Front()
    async with served(front) as door:
        for _ in range(3):
            live = stream(door.channel)
            await live.write(first())
            await live.write(audio())
            await front.processors.opened.acquire()
            live.cancel()
            await unary(door.channel, f"{HEALTH}/Check")
        places = door.connections._open.values()
        await until(lambda: all(place.spare for place in places))
        assert door.connections.held.total == 0
    await until(lambda: len(front.connections) == 0)
