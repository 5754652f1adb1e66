"""A session over the WebSocket that sends each chunk after the answer to the previous one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import websockets

from auricle.audio.pcm import to_int16

SAMPLE_RATE = 16_000
CHUNK_MS = 640
CHUNK = CHUNK_MS * SAMPLE_RATE // 1000
_EVENT_SECONDS = 120.0
# 15 s of audio: less than the server buffers, and little enough to bound the text of one decode.
_HURRY_CHUNKS = 24

Socket = websockets.ClientConnection
Events = asyncio.Queue[dict[str, Any]]


@dataclass(frozen=True)
class ChunkTime:
    """`offset` is where in its segment the chunk ended (seconds)."""

    segment: int
    offset: float
    seconds: float


@dataclass
class Fed:
    """The result of a session."""

    chunks: list[ChunkTime] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)  # in samples
    unanswered: int = 0  # grid points sent in a hurry that the server did not decode
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


async def feed(
    url: str,
    samples: np.ndarray,
    max_segment_seconds: float,
    in_a_hurry: tuple[float, float] = (0.0, 0.0),
    answer_seconds: float = _EVENT_SECONDS,
    chunk_ms: int = CHUNK_MS,
) -> Fed:
    """All audio is decoded (no voice activity), so each chunk has exactly one answer.

    Chunks that end within `in_a_hurry` (seconds) are sent in groups, so that the server skips most
    of their grid points; they are not timed.

    Raises RuntimeError if the server reports an error, announces another cadence, or does not
    answer any other chunk within `answer_seconds`: a server whose pacing skips grid points cannot
    be timed this way.
    """
    fed, start, answered, segment = Fed(), 0, 0, 0
    maximum = int(max_segment_seconds * SAMPLE_RATE)
    pcm, chunk = to_int16(samples), chunk_ms * SAMPLE_RATE // 1000

    def hurried(sample: int) -> bool:
        return in_a_hurry[0] <= sample / SAMPLE_RATE < in_a_hurry[1]

    async with _connected(url, _start(chunk_ms)) as (ready, socket, events):
        if ready["chunk_ms"] != chunk_ms:
            raise RuntimeError(f"asked for {chunk_ms} ms chunks, promised {ready['chunk_ms']} ms")
        for at, total in _packets(len(pcm), hurried, chunk):
            began = time.monotonic()
            await socket.send(pcm[at:total].tobytes())
            while total - start >= maximum or answered < _last_point(total, start, chunk):
                what = f"the answer to the chunk that ends at {total / SAMPLE_RATE:g} s"
                event = await _next(events, what, answer_seconds)
                if event["type"] == "final":
                    end = round(event["end_ms"] * SAMPLE_RATE / 1000)
                    fed.segments.append((start, end))
                    start, answered, segment = end, end, segment + 1
                elif event["type"] == "partial":
                    answered = round(event["audio_ms"] * SAMPLE_RATE / 1000)
                    fed.unanswered -= hurried(answered)
            if hurried(total):
                fed.unanswered += (total - at) // chunk
            else:
                offset = (total - start) / SAMPLE_RATE
                fed.chunks.append(ChunkTime(segment, offset, time.monotonic() - began))
        await socket.send('{"type": "end"}')
        while (event := await _next(events, "the end"))["type"] != "done":
            if event["type"] == "final":
                fed.segments.append((start, round(event["end_ms"] * SAMPLE_RATE / 1000)))
        fed.text, fed.usage = event["text"], event["usage"]
    return fed


def _packets(samples: int, hurried: Callable[[int], bool], chunk: int) -> Iterator[tuple[int, int]]:
    """The ranges [begin, end) of each message: one chunk, or several hurried ones."""
    chunks, at = samples // chunk, 0
    while at < chunks:
        end = at + 1
        while (
            end < min(chunks, at + _HURRY_CHUNKS)
            and hurried(at * chunk + chunk)
            and hurried(end * chunk + chunk)
        ):
            end += 1
        yield at * chunk, end * chunk
        at = end


def _last_point(total: int, start: int, chunk: int) -> int:
    """The last grid point of the open segment, minus a few samples for rounding to ms."""
    points = (total - start) // chunk
    return start + points * chunk - 16 if points else start


def _start(chunk_ms: int) -> dict[str, object]:
    return {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "language": "English",
        "chunk_ms": chunk_ms,
        "endpointing": {"enabled": False},
    }


@asynccontextmanager
async def _connected(
    url: str, start: dict[str, object]
) -> AsyncIterator[tuple[dict[str, Any], Socket, Events]]:
    """A session's `ready` event, and its later ones, which a background task reads."""
    events: Events = asyncio.Queue()
    address = url.replace("http", "ws", 1) + "/v1/audio/stream"
    async with websockets.connect(address, max_size=None, ping_timeout=None) as socket:
        await socket.send(json.dumps(start))
        reader = asyncio.create_task(_read(socket, events))
        try:
            yield await _next(events, "ready"), socket, events
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _read(socket: Socket, events: Events) -> None:
    async for message in socket:
        await events.put(json.loads(message))
    await events.put({"type": "error", "code": "closed", "message": str(socket.close_code)})


async def _next(events: Events, what: str, seconds: float = _EVENT_SECONDS) -> dict[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            event = await events.get()
    except TimeoutError:
        raise RuntimeError(f"{what} did not come within {seconds:g} s") from None
    if event["type"] == "error":
        raise RuntimeError(f"{event['code']}: {event['message']}")
    return event


async def speech_marks(url: str, samples: np.ndarray) -> list[dict[str, Any]]:
    """Events of a whole recording with voice activity and no partials, sent at once."""
    pcm = to_int16(samples)
    start = {"type": "start", "sample_rate": SAMPLE_RATE, "partials": False}
    received: list[dict[str, Any]] = []
    async with _connected(url, start) as (_, socket, events):
        for at in range(0, len(pcm), SAMPLE_RATE):
            await socket.send(pcm[at : at + SAMPLE_RATE].tobytes())
        await socket.send('{"type": "end"}')
        while not received or received[-1]["type"] != "done":
            received.append(await _next(events, "the next event"))
    return received
