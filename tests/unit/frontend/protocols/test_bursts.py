"""Every protocol transcribes a burst of audio to its end, even if its client then stays silent."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from auricle.frontend.protocols.audiosocket import audiosocket_protocol
from auricle.frontend.protocols.wyoming import wyoming_protocol
from auricle.tools.rendering.interfaces import WAYS
from auricle_testing import feed as streaming
from auricle_testing.feed import CHUNK
from tests.fakes import kserve, rpc
from tests.fakes.audiosocket import BEGUN, frame
from tests.fakes.doors import event_loop_policy
from tests.fakes.front import START, Front
from tests.fakes.tcp_port import Port, frontend
from tests.fakes.transcript_bus import KeptBus
from tests.fakes.twilio import CONNECTED, media
from tests.fakes.twilio import start as twilio_start
from tests.fakes.vapi import start as vapi_start
from tests.fakes.wyoming import sent
from tests.waiting import until

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.unit
Send = Callable[[bytes], Awaitable[None]]
Way = Callable[["Client"], AsyncIterator[Send]]


class Client:
    """A client of a protocol; its audio has `rate` and `width` bytes per sample."""

    rate, width = 16_000, 2

    def __init__(self) -> None:
        self.frontend = frontend(KeptBus(), translate_model="models/translator")
        self.front = Front()
        self.front.frontend = self.frontend

    def of(self, rate: int, width: int = 2) -> None:
        self.rate, self.width = rate, width

    def loud(self, seconds: float) -> bytes:
        samples = round(seconds * self.rate)
        return b"\x80" * samples if self.width == 1 else np.full(samples, 8_000, "<i2").tobytes()

    @property
    def heard_seconds(self) -> float:
        """The seconds of audio that the frontend has processed."""
        (metric,) = self.frontend.metrics._received.collect()
        return next(s.value for s in metric.samples if s.name.endswith("_total"))

    @asynccontextmanager
    async def socket(self, path: str, first: str | None = None) -> AsyncIterator[Any]:
        async with self.front.serving(), self.front.connect(path) as socket:
            if first is not None:
                await socket.send(first)
            yield socket


def binary(path: str, first: str | None = None) -> Way:
    """A WebSocket with binary messages at 16 kHz."""

    async def way(client: Client) -> AsyncIterator[Send]:
        async with client.socket(path, first) as socket:
            yield socket.send

    return way


def events(path: str, kind: str) -> Way:
    """OpenAI's events with base64 audio at 24 kHz."""

    async def way(client: Client) -> AsyncIterator[Send]:
        client.of(24_000)
        async with client.socket(path) as socket:

            async def send(audio: bytes) -> None:
                await socket.send(
                    json.dumps({"type": kind, "audio": base64.b64encode(audio).decode()})
                )

            yield send

    return way


async def twilio(client: Client) -> AsyncIterator[Send]:
    client.of(8_000, 1)
    async with client.socket("/v1/twilio", CONNECTED) as socket:
        await socket.send(twilio_start())
        yield lambda audio: socket.send(media(audio))


async def streaming_recognize(client: Client) -> AsyncIterator[Send]:
    async with rpc.calling(client.front) as channel:
        call = rpc.stream(channel)
        await call.write(rpc.first())
        yield lambda audio: call.write(rpc.audio(audio))
        call.cancel()


async def model_stream_infer(client: Client) -> AsyncIterator[Send]:
    async with rpc.calling(client.front) as channel:
        stream = kserve.Stream(channel)
        first = {"sequence_start": True}

        async def send(audio: bytes) -> None:
            await stream.send(audio, sequence_id=1, **first)
            first.clear()

        yield send
        stream.call.cancel()


@asynccontextmanager
async def port(client: Client, speaks: Any) -> AsyncIterator[asyncio.StreamWriter]:
    served = Port(speaks, bus=KeptBus())
    client.frontend = served.frontend
    async with served.serving(), served.client() as (_, writer):
        yield writer


async def wyoming(client: Client) -> AsyncIterator[Send]:
    audio_format = {"rate": 16_000, "width": 2, "channels": 1}
    speaks = lambda frontend, access: wyoming_protocol(frontend, access, ("English",))  # noqa: E731
    async with port(client, speaks) as writer:
        writer.write(sent("audio-start", audio_format))

        async def send(audio: bytes) -> None:
            writer.write(sent("audio-chunk", audio_format, audio))

        yield send


async def audiosocket(client: Client) -> AsyncIterator[Send]:
    client.of(8_000)
    async with port(client, audiosocket_protocol) as writer:
        writer.write(BEGUN)

        async def send(audio: bytes) -> None:
            writer.write(frame(0x10, audio))

        yield send


LINEAR = "encoding=linear16&sample_rate=16000"
LIVE: dict[str, Way] = {
    "WS /v1/audio/stream": binary("/v1/audio/stream", START),
    "WS /v1/realtime": events("/v1/realtime", "input_audio_buffer.append"),
    "WS /v1/realtime/translations": events(
        "/v1/realtime/translations", "session.input_audio_buffer.append"
    ),
    "WS /v1/listen": binary(f"/v1/listen?{LINEAR}"),
    "WS /v2/listen": binary(f"/v2/listen?{LINEAR}"),
    "WS /v3/ws": binary("/v3/ws?sample_rate=16000"),
    "StreamingRecognize": streaming_recognize,
    "ModelStreamInfer": model_stream_infer,
    "Wyoming": wyoming,
    "WS /v1/twilio": twilio,
    "WS /v1/vapi": binary("/v1/vapi", vapi_start(channels=1)),
    "AudioSocket": audiosocket,
}
RECORDINGS = {
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "POST /v1/listen",
    "Recognize",
    "ModelInfer",
}


def test_every_live_way_in_is_among_them() -> None:
    assert {way.route for way in WAYS} == LIVE.keys() | RECORDINGS


@pytest.mark.parametrize(
    "packets", [[1.03], [1.0, 0.03], [0.1] * 7 + [0.013]], ids=["at once", "two", "many"]
)
@pytest.mark.parametrize("way", LIVE)
async def test_the_end_of_a_burst_is_heard_though_nothing_follows(
    way: str, packets: list[float]
) -> None:
    client = Client()
    async with asyncio.timeout(120), asynccontextmanager(LIVE[way])(client) as send:
        for seconds in packets:
            await send(client.loud(seconds))
        # A resampler holds back some samples for its filter.
        kept = 0.0 if client.rate == 16_000 else 0.02
        await until(lambda: client.heard_seconds >= sum(packets) - kept - 1e-6)


@pytest.mark.parametrize("chunks", [1, 2, 11, 13, 15])
async def test_the_benchmark_of_streaming_gets_an_answer_to_every_burst(chunks: int) -> None:
    """The benchmark sends nothing more before the answer.

    11 chunks end 40 ms after the last slice of a second.
    """
    client = Client()
    samples = np.full(3 * chunks * CHUNK, 0.25, np.float32)
    async with asyncio.timeout(60), client.front.serving():
        hurry = (0.0, samples.size / 16_000)
        with patch.object(streaming, "_HURRY_CHUNKS", chunks):
            fed = await streaming.feed(client.front.url, samples, 120.0, hurry)
    assert len(fed.segments) == 1
