"""Attacks of clients without a key. A client with a key must be accepted within 2 s meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

import grpc.aio

from auricle.frontend.transport.grpc.frames import PREFACE, FrameKind, frame, reset
from auricle_testing.http2 import (
    EMPTY_SETTINGS,
    PINGED,
    WINDOW_UPDATE,
    call,
    data,
    prefix,
)
from auricle_testing.wire import handshake
from benchmarks.hostile.attacker import Attacking, judging
from benchmarks.hostile.attackers.wire import Hung, Target, Wire
from benchmarks.hostile.attacks import newcomer
from benchmarks.hostile.inputs import Stream
from benchmarks.hostile.oracle import Held, Verdict
from benchmarks.hostile.strategies.messages import REALTIME, STREAM
from benchmarks.hostile.strategies.ports import REFLECTION, WATCH

_ADDRESS = "127.0.0.66"
_FOUR = tuple(f"127.0.0.{number}" for number in range(66, 70))
_BEGUN = PREFACE + EMPTY_SETTINGS
_BLOCK_BYTES = 1 << 16
_MIB = 1 << 20
# The largest message that the server's default allows, less the bytes that complete it.
_LARGE = 16 * _MIB - 64
# More than the server permits of one address.
_CONNECTIONS_PER_SECOND = 110
_ROUND = 8 * _CONNECTIONS_PER_SECOND // 2  # 8 s


async def _during(
    target: Target,
    seconds: float,
    attack: Coroutine[Any, Any, None],
    attempt: newcomer.Attempt = newcomer.rejection,
    cases: int = 1,
) -> Held:
    """Whether newcomers are accepted in time while the attack runs."""
    task = asyncio.create_task(attack)
    try:
        return await newcomer.admitted(target, seconds, attempt, cases)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _flood(target: Target, port: str, first: bytes, block: bytes) -> None:
    """Connect again and again from one address; send the block as often as the server takes it."""
    block *= max(1, _BLOCK_BYTES // len(block))
    while True:
        wire = await Wire.open(target.place(port), _ADDRESS)
        try:
            await wire.send(first)
            while not wire.closed:
                await wire.send(block)
                await asyncio.sleep(0)
        finally:
            wire.close(abrupt=True)


def _flooding(port: str, attempt: newcomer.Attempt, first: bytes, *blocks: bytes) -> Attacking:
    """An attack with a flood of each block, one after the other."""

    async def attack(target: Target, scale: float) -> Held:
        found = Held(True, "no flood")
        for block in blocks:
            flood = _flood(target, port, first, block)
            one = await _during(target, 1.5 + 8.5 * scale, flood, attempt, len(blocks))
            found = max(found, one, key=lambda held: (not held.held, held.slowest))
        return found

    return attack


async def _open(target: Target, places: Iterable[tuple[str, str, bytes]]) -> None:
    """Open a connection for each (port, address, first bytes), and keep all of them open."""
    async with AsyncExitStack() as stack:
        for number, (port, address, sent) in enumerate(places):
            wire = await Wire.open(target.place(port), address)
            stack.callback(wire.close, abrupt=True)
            await wire.send(sent)
            if number % 64 == 0:
                await asyncio.sleep(0)
        await asyncio.Event().wait()


# gRPC.


async def grpc_messages(target: Target, scale: float) -> Held:
    """Calls without a key that hold nearly the largest message each."""
    count = max(30, int(110 * scale))
    large = prefix(_LARGE) + bytes(_LARGE - 1)
    one = call(1, REFLECTION) + data(1, large)
    attack = _open(target, [("grpc", _ADDRESS, _BEGUN + one)] * count)
    return await _during(target, 5 + 10 * scale, attack, newcomer.call_rejection, count)


async def grpc_calls(target: Target, scale: float) -> Held:
    """The same with gRPC's own client, which respects the server's windows."""
    count = max(30, int(110 * scale))
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(
                    f"{target.host}:{target.grpc_port}",
                    options=[("grpc.use_local_subchannel_pool", 1)],
                )
            )
            for _ in range(4)
        ]

        async def held(number: int) -> None:
            asked = channels[number % 4].stream_stream(f"/{REFLECTION}")()
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await asked.write(bytes(_LARGE))

        async def attack() -> None:
            await asyncio.gather(*(held(number) for number in range(count)))

        return await _during(target, 5 + 10 * scale, attack(), newcomer.call_rejection, count)


async def grpc_watches(target: Target, scale: float) -> Held:
    """Thousands of calls of Watch from one address, a hundred on each connection."""
    streams = range(1, 200, 2)
    watches = b"".join(
        call(stream, WATCH) + data(stream, prefix(0), ends=True) for stream in streams
    )
    connections = max(20, int(82 * scale))
    attack = _open(target, [("grpc", _ADDRESS, _BEGUN + watches)] * connections)
    cases = connections * len(streams)
    return await _during(target, 5 + 10 * scale, attack, newcomer.call_rejection, cases)


async def grpc_connections(target: Target, scale: float) -> Held:
    """As many idle connections from one address as there are places."""
    count = int(8_192 * max(scale, 0.25))
    attack = _open(target, [("grpc", _ADDRESS, _BEGUN)] * count)
    return await _during(target, 5 + 10 * scale, attack, newcomer.call_rejection, count)


async def compressed_messages(target: Target, scale: float) -> Held:
    """Seven calls a second, each with 16 kB that become 16 MiB once they are unpacked."""
    packed = gzip.compress(bytes(_LARGE))
    message = prefix(len(packed), compressed=True) + packed
    first = call(1, REFLECTION, encoding="gzip")
    one = first + data(1, message, ends=True)

    async def attack() -> None:
        async with AsyncExitStack() as stack:
            while True:
                wire = await Wire.open(target.place("grpc"), _ADDRESS)
                stack.callback(wire.close, abrupt=True)
                await wire.send(_BEGUN + one)
                await asyncio.sleep(1 / 7)

    return await _during(target, 5 + 10 * scale, attack(), newcomer.call_rejection)


# Opened and reset at once.
_RESETS = b"".join(call(stream, WATCH) + reset(stream, 8) for stream in range(1, 2_000, 2))
http2_floods = _flooding(
    "grpc", newcomer.call_rejection, _BEGUN,
    PINGED, EMPTY_SETTINGS, _RESETS, frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    frame(FrameKind.HEADERS, 0, 1),
)  # fmt: skip


# HTTP and TCP.

_CHUNKED = "{} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}"
_TRAILER = b"x-a: " + b"a" * 1_000 + b"\r\n"


async def endless_trailers(target: Target, scale: float) -> Held:
    """Chunked bodies whose trailers, or whose chunk's extension, never end."""
    found = Held(True, "no trailers")
    for request in ("GET /live", "POST /v1/audio/transcriptions"):
        for begun, block in (("0\r\n", _TRAILER), ("5;x=", b"y" * 1_000)):
            first = _CHUNKED.format(request, begun).encode()
            flood = _flood(target, "http", first, block)
            one = await _during(target, 1.5 + 6.5 * scale, flood, cases=4)
            found = max(found, one, key=lambda held: (not held.held, held.slowest))
    return found


async def idle_connections(target: Target, scale: float) -> Held:
    """Four addresses open connections, as fast as is permitted, until all places are taken."""
    request = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
    ping = b'{"type": "ping", "data_length": 0, "payload_length": 0}\n'
    kinds = (("http", request), ("wyoming", ping))

    async def one(address: str) -> None:
        async with AsyncExitStack() as stack:
            wires: list[tuple[Wire, bytes]] = []
            for number in itertools.count():
                for port, sent in kinds:
                    wire = await Wire.open(target.place(port), address)
                    stack.callback(wire.close, abrupt=True)
                    wires.append((wire, sent))
                    await wire.send(sent)
                # Each is used again before the server's deadline for the next request.
                for wire, sent in wires[number % _ROUND :: _ROUND]:
                    await wire.send(sent)
                await asyncio.sleep(len(kinds) / _CONNECTIONS_PER_SECOND)

    async def attack() -> None:
        await asyncio.gather(*map(one, _FOUR))

    return await _during(target, 5 + 25 * scale, attack(), cases=int(400 * (5 + 25 * scale)))


async def keyless_requests(target: Target, scale: float) -> Held:
    """Four addresses request /live again and again on 32 connections each."""
    batch = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n" * 16

    async def one(address: str) -> None:
        wire = await Wire.open(target.place("http"), address)
        try:
            while not wire.closed:
                await wire.send(batch)
                with suppress(Hung):  # beyond its rate nothing is read for a while
                    await wire.receive()
                wire.unread.clear()
        finally:
            wire.close(abrupt=True)

    async def attack() -> None:
        await asyncio.gather(*map(one, _FOUR * 32))

    return await _during(target, 5 + 10 * scale, attack())


# Names that lead to this server only if a page's author arranged it (DNS rebinding).
_NAMES = ("attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", "localhost.x.y")
_GET = "GET /v1/models HTTP/1.1\r\n{}Connection: close\r\nAuthorization: Bearer @KEY\r\n\r\n"


def _of_other_hosts() -> Iterable[Stream]:
    for name in _NAMES:
        yield Stream("http", (_GET.format(f"Host: {name}\r\n").encode(),))
        for path in (STREAM, REALTIME):
            origin = f"Host: {name}\r\nOrigin: http://{name}\r\nAuthorization: Bearer @KEY\r\n"
            opening = handshake(path).replace(b"Host: localhost\r\n", origin.encode())
            yield Stream("http", (opening,))
    for more in ("Host: x\r\nHost: x\r\n", "Host: x\r\nHost: attacker.example\r\n"):
        yield Stream("http", (_GET.format(more).encode(),))


other_hosts = judging(_of_other_hosts(), Verdict.REFUSED)
