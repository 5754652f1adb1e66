"""The ways into a server: each transcribes one recording and returns its segments with times."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import soundfile
import websockets

from auricle.audio.pcm import Int16, to_float
from auricle.client.stream import stream_file
from benchmarks.ways.pace import Pace

SAMPLE_RATE = 16_000
_PACKET = SAMPLE_RATE // 10
_SECONDS = 1_800.0
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass(frozen=True)
class Segment:
    """Text of [start, end) seconds of the recording."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript:
    """The segments with text. `decoded` partial texts came, if the way has them."""

    segments: tuple[Segment, ...]
    decoded: int = 0

    @property
    def text(self) -> str:
        """The whole text."""
        return " ".join(segment.text for segment in self.segments)


Way = Callable[..., Awaitable[Transcript]]


async def post(url: str, pcm: Int16, language: str | None = None) -> Transcript:
    """`POST /v1/audio/transcriptions`. The text without times must be the same."""
    file = io.BytesIO()
    soundfile.write(file, pcm, SAMPLE_RATE, format="WAV")
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        models = (await client.get(f"{url}/v1/models")).json()["data"]
        answer = await client.post(
            f"{url}/v1/audio/transcriptions",
            data={"model": models[0]["id"], "response_format": "verbose_json"} | _forced(language),
            files={"file": ("recording.wav", file.getvalue())},
        )
    answer.raise_for_status()
    return Transcript(
        tuple(Segment(s["text"], s["start"], s["end"]) for s in answer.json()["segments"])
    )


async def command_line(url: str, pcm: Int16, language: str | None = None) -> Transcript:
    """Transcribe with the requests of `auricle transcribe FILE`."""
    stream = stream_file(url, to_float(pcm), live=False, language=language)
    return _transcript([event async for event in stream])


async def live(
    url: str, pcm: Int16, language: str | None = None, chunk_ms: int | None = None
) -> Transcript:
    """`WS /v1/audio/stream` with partial text."""
    start = {"type": "start", "sample_rate": SAMPLE_RATE} | _forced(language)
    if chunk_ms is not None:
        start["chunk_ms"] = chunk_ms
    async with _connected(f"{url}/v1/audio/stream") as socket:
        await socket.send(json.dumps(start))
        received = await _conversation(
            socket, pcm, lambda packet: packet, ['{"type": "end"}'], lambda e: e["type"] == "done"
        )
    return _transcript(received)


async def realtime(url: str, pcm: Int16) -> Transcript:
    """`WS /v1/realtime` with turn detection, from the same samples."""
    audio = {"format": {"type": "audio/pcm", "rate": SAMPLE_RATE}}
    session = {"type": "transcription", "audio": {"input": audio}}
    turns = _Turns()

    def append(packet: bytes) -> str:
        data = base64.b64encode(packet).decode()
        return json.dumps({"type": "input_audio_buffer.append", "audio": data})

    async with _connected(f"{url}/v1/realtime?intent=transcription") as socket:
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        # The first commit ends an open turn; the second has nothing to commit, and its error shows
        # that all turns are known.
        ends = [
            json.dumps({"type": "input_audio_buffer.commit", "event_id": name})
            for name in ("flush", "end")
        ]
        received = await _conversation(socket, pcm, append, ends, turns.over)
    segments = [e for e in received if e["type"] == f"{_TRANSCRIPTION}segment"]
    return Transcript(
        tuple(Segment(s["text"], s["start"], s["end"]) for s in segments),
        sum(e["type"] == "auricle.transcription.partial" for e in received),
    )


WAYS: dict[str, Way] = {
    "post": post,
    "command_line": command_line,
    "live": live,
    "realtime": realtime,
}


def _forced(language: str | None) -> dict[str, Any]:
    return {} if language is None else {"language": language}


class _Turns:
    """Detects when the last turn of a realtime session has its text."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._ended = False

    def over(self, event: dict[str, Any]) -> bool:
        kind = event["type"]
        if kind == "input_audio_buffer.committed":
            self._open.add(event["item_id"])
        elif kind == f"{_TRANSCRIPTION}completed":
            self._open.discard(event["item_id"])
        elif kind == f"{_TRANSCRIPTION}failed":
            raise RuntimeError(event["error"]["message"])
        elif kind == "error":
            if event["error"]["event_id"] not in ("flush", "end"):
                raise RuntimeError(event["error"]["message"])
            self._ended = event["error"]["event_id"] == "end"
        return self._ended and not self._open


def _transcript(received: list[dict[str, Any]]) -> Transcript:
    finals = [e for e in received if e["type"] == "final" and e["text"]]
    return Transcript(
        tuple(Segment(f["text"], f["start_ms"] / 1000, f["end_ms"] / 1000) for f in finals),
        sum(e["type"] == "partial" for e in received),
    )


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[websockets.ClientConnection]:
    address = address.replace("http", "ws", 1)
    async with websockets.connect(address, max_size=None, ping_interval=None) as socket:
        yield socket


async def _conversation(
    socket: websockets.ClientConnection,
    pcm: Int16,
    packed: Callable[[bytes], bytes | str],
    ends: Sequence[str],
    last: Callable[[dict[str, Any]], bool],
) -> list[dict[str, Any]]:
    """Send all audio and `ends`; return the events up to the `last` one."""
    pace = Pace()
    sending = asyncio.create_task(_send(socket, pcm, packed, ends, pace))
    received: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(_SECONDS):
            while not received or not last(received[-1]):
                received.append(json.loads(await socket.recv()))
                pace.event(received[-1])
                if received[-1]["type"] == "error" and "code" in received[-1]:
                    raise RuntimeError(received[-1]["message"])
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return received


async def _send(
    socket: websockets.ClientConnection,
    pcm: Int16,
    packed: Callable[[bytes], bytes | str],
    ends: Sequence[str],
    pace: Pace,
) -> None:
    for at in range(0, len(pcm), _PACKET):
        packet = pcm[at : at + _PACKET]
        await pace.wait(at / SAMPLE_RATE, len(packet) / SAMPLE_RATE)
        await socket.send(packed(packet.tobytes()))
    for message in ends:
        await socket.send(message)
