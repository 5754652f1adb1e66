"""Attacks on the live protocols."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from contextlib import AsyncExitStack, suppress

import numpy as np

from benchmarks.hostile.attackers.sockets import Ending, let_in, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, Hung, Wire
from benchmarks.hostile.attacks.newcomer import Held, is_let_in, metric, slowest_live, until_let_in
from benchmarks.hostile.case import leak
from benchmarks.hostile.generators.websocket import frame

_STREAM = "/v1/audio/stream"
RESPONSIVE_SECONDS = 1.0
_AFTER_SECONDS = 10.0
_PIECE = 1 << 16


def start(**fields: object) -> bytes:
    """The frame of a start message."""
    return frame(1, json.dumps({"type": "start", "sample_rate": 16_000, **fields}).encode())


async def _beside(target: Target, attack: asyncio.Task[None], cases: int, scale: float) -> Held:
    """Watch /live until the attack is over, and a little longer."""
    over = asyncio.Event()
    watching = asyncio.create_task(slowest_live(target, over))
    await attack
    await asyncio.sleep(_AFTER_SECONDS * scale)
    over.set()
    worst = await watching
    return Held(worst < RESPONSIVE_SECONDS, f"/live answered within {1000 * worst:.0f} ms", cases)


async def _flood(target: Target, path: str, first: bytes, rest: bytes, seconds: float) -> None:
    wire = await let_in(target, path)
    try:
        async with asyncio.timeout(seconds):
            await wire.send(first)
            for at in range(0, len(rest), _PIECE):
                await wire.send(rest[at : at + _PIECE])
    except TimeoutError:
        pass  # backpressure: that is an answer
    finally:
        wire.close()


async def one_byte_frames(target: Target, scale: float) -> Held:
    """400,400 frames of one byte, decoded every 80 ms without endpointing."""
    count = int(400_400 * scale)
    first = start(chunk_ms=80, endpointing={"enabled": False})
    flood = _flood(target, _STREAM, first, frame(2, b"\0") * count, 10 + 10 * scale)
    return await _beside(target, asyncio.create_task(flood), count, scale)


async def ping_flood(target: Target, scale: float) -> Held:
    """Pings of 125 bytes, none of whose answers is read."""
    count = int(100_000 * scale)
    flood = _flood(target, _STREAM, start(), frame(9, b"p" * 125) * count, 10 + 10 * scale)
    return await _beside(target, asyncio.create_task(flood), count, scale)


async def small_events(target: Target, scale: float) -> Held:
    """Realtime events that are each answered, none of whose answers is read."""
    count = int(100_000 * scale)
    event = frame(1, b'{"type":"input_audio_buffer.clear"}')
    flood = _flood(target, "/v1/realtime", event, event * count, 10 + 10 * scale)
    return await _beside(target, asyncio.create_task(flood), count, scale)


async def faster_than_real_time(target: Target, scale: float) -> Held:
    """Three clients who send noise as fast as they can; somebody else wants in."""
    rng = np.random.default_rng(3)
    noise = frame(2, rng.integers(-9_000, 9_000, 16_000).astype("<i2").tobytes())
    seconds = 4 + 11 * scale
    await until_let_in(target)
    floods = [
        asyncio.create_task(_flood(target, _STREAM, start(), noise * 600, seconds))
        for _ in range(3)
    ]
    refused = await _comers(target, seconds)
    for flood in floods:
        flood.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    return Held(not refused, refused or "newcomers were let in all the time", 1_800)


async def _comers(target: Target, seconds: float) -> str:
    """A newcomer each second; return what the first one met who was not let in, or ""."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(1.0)
        if refused := await is_let_in(target):
            return refused
    return ""


async def come_and_go(target: Target, scale: float) -> Held:
    """Connect and close twelve times a second."""
    over, count = asyncio.Event(), 0
    await until_let_in(target)

    async def attack() -> None:
        nonlocal count
        while not over.is_set():
            found = await opened(target, _STREAM)
            if isinstance(found, Wire):
                found.close(abrupt=count % 2 == 0)
            count += 1
            await asyncio.sleep(1 / 12)

    attacking = asyncio.create_task(attack())
    refused = await _comers(target, 4 + 11 * scale)
    over.set()
    await attacking
    return Held(not refused, refused or "newcomers were let in all the time", count)


async def failed_starts(target: Target, _scale: float) -> Held:
    """A dozen sessions within a moment whose start is wrong, then a newcomer."""
    await until_let_in(target)

    async def one() -> None:
        found = await opened(target, _STREAM)
        if isinstance(found, Wire):
            await found.send(frame(1, b'{"type": "start"}'))
            with suppress(Hung):
                await found.hears_end(0.5)
            found.close()

    await asyncio.gather(*(one() for _ in range(12)))
    refused = await is_let_in(target)
    return Held(not refused, refused or "the newcomer was let in", 12)


async def silent_connections(target: Target, scale: float) -> Held:
    """Connections that never send a header: closed in time, and nobody else is kept out."""
    count = int(1_500 * scale)
    async with AsyncExitStack() as stack:
        wires = []
        for _ in range(count):
            wire = await opened_silently(target)
            stack.callback(wire.close, abrupt=True)
            wires.append(wire)
        refused = await is_let_in(target)
        closed = await asyncio.gather(*(_closed(wire, 20.0) for wire in wires))
    left = closed.count(False)
    detail = refused or f"{left} of {count} were open after 20 s"
    return Held(not refused and not left, detail, count)


async def opened_silently(target: Target) -> Wire:
    """A connection on which nothing is sent."""
    return await Wire.open(Address(target.host, target.port))


async def _closed(wire: Wire, seconds: float) -> bool:
    try:
        while await wire.receive(seconds):
            pass
    except Hung:
        return False
    return True


async def _features(target: Target, *packets: bytes) -> Ending:
    """Send packets of float32 features, and return how the session ended."""
    wire, ending = await let_in(target, _STREAM), Ending()
    try:
        await wire.send(start(encoding="log_mel"))
        for packet in packets:
            await wire.send(frame(2, packet))
        await wire.send(frame(1, b'{"type": "end"}'))
        while not ending.code and await wire.receive():
            while (found := wire.frame()) is not None:
                ending.take(*found)
    except Hung:
        ending.error = b"nothing came"
    finally:
        wire.close()
    return ending


async def feature_offsets(target: Target, _scale: float) -> Held:
    """Empty packets of features far in the future: refused, and counted nowhere."""
    name = "auricle_frontend_audio_seconds_total"
    before = await metric(target, name)
    wrong = []
    for at in (2**63, 2**64 - 1, 2**62, 10**15):
        ending = await _features(target, struct.pack("<QIII", at, 0, 0, 1))
        if ending.code != 1008:
            wrong.append(f"{at}: close {ending.code} {ending.error[:100]!r}")
    added = await metric(target, name) - before
    if added > 3_600:
        wrong.append(f"{added:g} s of audio were counted")
    return Held(not wrong, "; ".join(wrong) or "all refused with 1008", 4)


async def feature_extremes(target: Target, _scale: float) -> Held:
    """Energies that no sound has: the client's mistake, not the server's."""
    wrong = []
    for value in (3.4e38, -3.4e38, 1e30, np.inf, np.nan):
        frames = np.full((10, 128), value, np.float32)
        ending = await _features(target, struct.pack("<QIII", 0, 0, 1_600, 1) + frames.tobytes())
        if ending.code not in (1000, 1008):
            wrong.append(f"{value}: close {ending.code} {ending.error[:100]!r}")
    return Held(not wrong, "; ".join(wrong) or "none ended with an internal error", 5)


async def echo(target: Target, _scale: float) -> Held:
    """Nearly a megabyte in each text of a start message; the answer must be short."""
    wrong = []
    for name in ("language", "context", "encoding", "feature_dtype", "x" * 100_000, "type"):
        wire, ending = await let_in(target, _STREAM), Ending()
        # The only encoding with which all fields are looked at.
        await wire.send(start(**{"encoding": "log_mel", name: "x" * 900_000}))
        with suppress(Hung):
            while not ending.code and await wire.receive():
                while (found := wire.frame()) is not None:
                    ending.take(*found)
        wire.close()
        if shown := leak(ending.error) or (ending.code != 1008 and f"close {ending.code}"):
            wrong.append(f"{name[:20]}: {shown}")
    return Held(not wrong, "; ".join(wrong) or "all refused in a few words", 6)
