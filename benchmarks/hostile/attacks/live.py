"""Attacks on the live protocols."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

import numpy as np

from auricle_testing.wire import BINARY, PING, TEXT, frame
from benchmarks.hostile.attacker import Attacking, judging
from benchmarks.hostile.attackers.resumes import SESSION_SECONDS, token
from benchmarks.hostile.attackers.sockets import Ending, let_in, opened
from benchmarks.hostile.attackers.wire import Hung, Target, Wire
from benchmarks.hostile.attacks import newcomer
from benchmarks.hostile.attacks.newcomer import rejection, until_accepted, watching_live
from benchmarks.hostile.inputs import Session
from benchmarks.hostile.oracle import Held, Verdict
from benchmarks.hostile.strategies.http import END
from benchmarks.hostile.strategies.media import features
from benchmarks.hostile.strategies.messages import REALTIME, STREAM
from benchmarks.hostile.strategies.resumes import START
from benchmarks.hostile.strategies.values import as_json

_AFTER_SECONDS = 10.0
_PIECE = 1 << 16
_RESUMES = f"{STREAM}?resume=true"


def start(**fields: object) -> bytes:
    """The frame of a start message."""
    return frame(TEXT, as_json({"type": "start", "sample_rate": 16_000, **fields}))


def _noise(seconds: int, seed: int) -> bytes:
    samples = np.random.default_rng(seed).integers(-9_000, 9_000, seconds * 16_000)
    return frame(BINARY, samples.astype("<i2").tobytes())


def _responsive(live: newcomer.Live, wrong: Iterable[str], cases: int) -> Held:
    """Whether /live answered in time, and nothing else was wrong."""
    found = [*wrong, *live.failures]
    detail = "; ".join(found[:3]) or f"/live answered within {1000 * live.worst:.0f} ms"
    return Held(not found and live.worst < newcomer.RESPONSIVE_SECONDS, detail, cases)


async def _flood(target: Target, path: str, first: bytes, rest: bytes, seconds: float) -> None:
    """Send without reading, until all is sent or the server no longer reads."""
    wire = await let_in(target, path)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wire.send(first)
            for at in range(0, len(rest), _PIECE):
                await wire.send(rest[at : at + _PIECE])
    wire.close()


def _flooding(path: str, first: bytes, one: bytes, most: int) -> Attacking:
    """An attack with many frames; /live must answer meanwhile, and a little later."""

    async def attack(target: Target, scale: float) -> Held:
        count = int(most * scale)
        async with watching_live(target.url) as live:
            await _flood(target, path, first, one * count, 10 + 10 * scale)
            await asyncio.sleep(_AFTER_SECONDS * scale)
        return _responsive(live, (), count)

    return attack


_CLEAR = frame(TEXT, b'{"type":"input_audio_buffer.clear"}')
# Decoded every 80 ms without endpointing.
_HASTY = start(chunk_ms=80, endpointing={"enabled": False})
one_byte_frames = _flooding(STREAM, _HASTY, frame(BINARY, b"\0"), 400_400)
# Pings and events with an answer each, which the client does not read.
ping_flood = _flooding(STREAM, start(), frame(PING, b"p" * 125), 100_000)
small_events = _flooding(REALTIME, _CLEAR, _CLEAR, 100_000)


async def _newcomers_during(
    target: Target, scale: float, attack: Callable[[], Coroutine[Any, Any, None]], pause: float
) -> Held:
    """Start the attack again and again, at intervals; newcomers must be accepted all the time."""
    await until_accepted(target)
    count = 0
    async with asyncio.TaskGroup() as tries:

        async def attacking() -> None:
            nonlocal count
            while True:
                tries.create_task(attack())
                count += 1
                await asyncio.sleep(pause)

        task = tries.create_task(attacking())
        refused = await newcomer.rejection_within(target, 4 + 11 * scale)
        task.cancel()
    return Held(not refused, refused or "newcomers were accepted all the time", count)


async def faster_than_real_time(target: Target, scale: float) -> Held:
    """Three clients that send noise as fast as they can."""
    noise, seconds = _noise(1, 3) * 600, 4 + 11 * scale

    async def three() -> None:
        floods = (_flood(target, STREAM, start(), noise, seconds) for _ in range(3))
        await asyncio.gather(*floods)

    return await _newcomers_during(target, scale, three, pause=3_600)


async def come_and_go(target: Target, scale: float) -> Held:
    """Connect and close twelve times a second."""

    async def one() -> None:
        if isinstance(found := await opened(target, STREAM), Wire):
            found.close(abrupt=True)

    return await _newcomers_during(target, scale, one, pause=1 / 12)


async def failed_starts(target: Target, _scale: float) -> Held:
    """A dozen sessions with a wrong start within a moment, then a newcomer."""
    await until_accepted(target)

    async def one() -> None:
        if isinstance(found := await opened(target, STREAM), Wire):
            await found.send(frame(TEXT, b'{"type": "start"}'))
            with suppress(Hung):
                await found.rest(0.5)
            found.close()

    await asyncio.gather(*(one() for _ in range(12)))
    refused = await rejection(target)
    return Held(not refused, refused or "the newcomer was accepted", 12)


async def silent_connections(target: Target, scale: float) -> Held:
    """Connections without a header: closed in time, and others are accepted."""
    count = int(1_500 * scale)

    async def is_open(wire: Wire) -> bool:
        try:
            while await wire.receive(20.0):
                pass
        except Hung:
            return True
        return False

    async with AsyncExitStack() as stack:
        wires = []
        for _ in range(count):
            wires.append(await Wire.open(target.place("http")))
            stack.callback(wires[-1].close, abrupt=True)
        refused = await rejection(target)
        left = sum(await asyncio.gather(*map(is_open, wires)))
    detail = refused or f"{left} of {count} were open after 20 s"
    return Held(not refused and not left, detail, count)


def _features(data: bytes, **fields: object) -> Session:
    """A session of features, with the packet if it is not empty."""
    start = as_json({"type": "start", "sample_rate": 16_000, "encoding": "log_mel", **fields})
    packets = [(BINARY, data)] if data else []
    return Session(STREAM, ((TEXT, start), *packets, (TEXT, b'{"type": "end"}')))


_OFFSETS = [struct.pack("<QIII", at, 0, 0, 1) for at in (2**63, 2**64 - 1, 2**62, 10**15)]
_EXTREMES = (3.4e38, -3.4e38, 1e30, np.inf, np.nan)
# Energies that no sound has: an error of the client, not of the server.
feature_extremes = judging(
    [_features(features(np.full((10, 128), value, np.float32))) for value in _EXTREMES],
    Verdict.ANSWERED, Verdict.REFUSED,
)  # fmt: skip
_LONG = ("language", "context", "encoding", "feature_dtype", "x" * 100_000, "type")
# Nearly a megabyte in each text of a start message; the answer must be short.
echo = judging([_features(b"", **{name: "x" * 900_000}) for name in _LONG], Verdict.REFUSED)


async def feature_offsets(target: Target, scale: float) -> Held:
    """Empty packets of features far in the future: rejected, and not counted."""
    counter = "auricle_frontend_audio_seconds_total"
    before = await newcomer.metric(target, counter)
    held = await judging(map(_features, _OFFSETS), Verdict.REFUSED)(target, scale)
    added = await newcomer.metric(target, counter) - before
    detail = held.detail if added < 3_600 else f"{added:g} s of audio were counted"
    return Held(held.held and added < 3_600, detail, held.cases)


# Resumed sessions, which a server accepts under any load.


async def _resumed(wire: Wire, *frames: bytes) -> Ending:
    ending = Ending()
    try:
        await wire.send(b"".join(frames))
        await ending.read_all(wire, SESSION_SECONDS)
    except Hung:
        ending.reason = b"no answer"
    finally:
        wire.close()
    return ending


def _resume(text: str, from_sample: int) -> bytes:
    resume = {"token": text, "from_sample": from_sample}
    return frame(TEXT, as_json(START | {"resume": resume}))


async def false_tokens(target: Target, scale: float) -> Held:
    """Thirty of the longest tokens a second, all of them invalid."""
    wrong: list[str] = []
    first = _resume("AQ".ljust(65_536, "A"), 0)  # seems valid until it is opened

    async def one() -> None:
        if isinstance(found := await opened(target, _RESUMES), Wire):
            ending = await _resumed(found, first)
            if b"resume_" not in ending.error:
                wrong.append(f"close {ending.code} {ending.reason!r} {ending.error[:100]!r}")

    held = await _newcomers_during(target, scale, one, pause=1 / 30)
    return Held(held.held and not wrong, "; ".join(wrong[:3]) or held.detail, held.cases)


async def one_token_many_times(target: Target, scale: float) -> Held:
    """One token on many connections at once, each with seconds of other audio.

    Each ends in order, continued by the next one or not; the frontend answers meanwhile, and
    accepts other clients afterwards.
    """
    count, audio = 2 + int(10 * scale), _noise(5, 4)
    await until_accepted(target)
    first = _resume(*await token(target))

    async def one() -> str:
        ending = await _resumed(await let_in(target, _RESUMES), first, audio, END)
        taken_over = ending.code == 1008 and b"resume_taken_over" in ending.error
        right = ending.code in (1000, 1013) or taken_over
        return "" if right else f"close {ending.code} {ending.reason!r} {ending.error[:100]!r}"

    async with watching_live(target.url) as live:
        wrong = await asyncio.gather(*(one() for _ in range(count)))
    await until_accepted(target, 60.0)
    return _responsive(live, filter(None, wrong), count)
