"""Telephone calls on a real graph: the transcript bus has the same text as our own protocol."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import signal
import uuid
from collections.abc import Iterator
from typing import Any

import jiwer
import numpy as np
import pytest
import soundfile
import soxr
import websockets

from auricle.audio.pcm import to_int16
from auricle_testing import recordings
from auricle_testing.server import Server, eventually, free_port, frontend_beside
from auricle_testing.services import Nats, stored_messages

pytestmark = pytest.mark.end_to_end
RATE = 8_000
WAITING = "auricle_frontend_transcript_messages_waiting"
Frontend = tuple[Server, Nats]


@pytest.fixture(scope="module")
def audiosocket_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def frontend(
    server: Server, audiosocket_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Frontend]:
    """A frontend that publishes the transcripts of calls."""
    nats = Nats(tmp_path_factory.mktemp("nats"))
    nats.start()
    try:
        settings = (
            f"--Frontend.nats_server={nats.address}",
            f"--Frontend.audiosocket_port={audiosocket_port}",
        )
        with frontend_beside(server, *settings) as running:
            yield running, nats
    finally:
        nats.end(signal.SIGTERM)


def spoken(name: str) -> np.ndarray:
    """A recording at telephone quality."""
    return soxr.resample(recordings.samples(name), recordings.SAMPLE_RATE, RATE)


def mu_law(name: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, spoken(name), RATE, format="RAW", subtype="ULAW")
    return file.getvalue()


async def own_words(url: str, audio: bytes, encoding: str, rate: int = RATE) -> str:
    """The text of the same bytes over our own protocol."""
    async with websockets.connect(url.replace("http", "ws") + "/v1/audio/stream") as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": rate, "encoding": encoding}))
        await socket.send(audio)
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "done":
                return str(event["text"])
    raise AssertionError("no text")


async def published(frontend: Frontend, call: str) -> dict[str, str]:
    """The text of each part of a call, after all messages are published."""
    server, nats = frontend
    await eventually(lambda: server.metric("Frontend", WAITING) == 0, seconds=60)
    parts: dict[str, list[str]] = {}
    for message in await stored_messages(nats.address):
        if message["session"] == call and message["type"] == "final" and message["text"]:
            parts.setdefault(message["part"], []).append(message["text"])
    return {part: " ".join(texts) for part, texts in parts.items()}


def alike(own: str, text: str) -> bool:
    """Whether the words are the same, except some that the model is uncertain about.

    It was not trained on telephone audio: at 8000 Hz some words depend on the chunk boundaries.
    """
    return bool(jiwer.wer(own, text) < 0.5)


def packets(audio: bytes, size: int) -> list[bytes]:
    return [audio[at : at + size] for at in range(0, len(audio), size)]


async def test_both_sides_of_a_twilio_call_have_the_words_of_our_own_protocol(
    frontend: Frontend,
) -> None:
    server, _ = frontend
    sides = {"inbound": mu_law("hello"), "outbound": mu_law("station")}
    audio = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
    begun: dict[str, Any] = {"streamSid": "MZ1", "callSid": "CA1", "accountSid": "AC1"}
    begun |= {"tracks": list(sides), "mediaFormat": audio, "customParameters": {}}
    async with asyncio.timeout(120):
        url = server.url.replace("http", "ws") + "/v1/twilio"
        async with websockets.connect(url) as socket:
            await socket.send(json.dumps({"event": "connected", "protocol": "Call"}))
            await socket.send(json.dumps({"event": "start", "start": begun}))
            for track, side in sides.items():
                for packet in packets(side, 160):
                    payload = base64.b64encode(packet).decode()
                    media = {"track": track, "payload": payload}
                    await socket.send(json.dumps({"event": "media", "media": media}))
            await socket.send(json.dumps({"event": "stop", "stop": {}}))
            await socket.wait_closed()
            assert socket.close_code == 1000
        texts = await published(frontend, "CA1")
        own = {
            f"{track}-MZ1": await own_words(server.url, side, "pcm_mulaw")
            for track, side in sides.items()
        }
    assert texts.keys() == own.keys()
    assert all(alike(own[part], text) for part, text in texts.items()), (own, texts)


async def test_an_asterisk_call_has_the_words_of_our_own_protocol(
    frontend: Frontend, audiosocket_port: int
) -> None:
    server, _ = frontend
    call = uuid.uuid4()
    side = to_int16(spoken("station")).tobytes()
    async with asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", audiosocket_port)
        writer.write(b"\x01\x00\x10" + call.bytes)
        for packet in packets(side, 320):
            writer.write(b"\x10" + len(packet).to_bytes(2, "big") + packet)
        writer.write(b"\x00\x00\x00")
        assert await reader.read() == b"\x00\x00\x00"
        writer.close()
        own = await own_words(server.url, side, "pcm_s16le")
        texts = await published(frontend, str(call))
    (text,) = texts.values()
    assert alike(own, text), (own, text)


async def test_both_channels_of_a_vapi_call_have_the_words_of_our_own_protocol(
    server: Server,
) -> None:
    rate = recordings.SAMPLE_RATE
    sides = [to_int16(recordings.samples(name)) for name in ("hello", "station")]
    longest = max(map(len, sides)) + 2 * rate  # each ends with silence, which ends its last segment
    sides = [np.pad(side, (0, longest - len(side))) for side in sides]
    audio = np.stack(sides, axis=1).tobytes()
    async with asyncio.timeout(120):
        own = [await own_words(server.url, s.tobytes(), "pcm_s16le", rate) for s in sides]
        url = server.url.replace("http", "ws") + "/v1/vapi?language=en"
        async with websockets.connect(url) as socket:
            start = {"encoding": "linear16", "container": "raw", "sampleRate": rate, "channels": 2}
            await socket.send(json.dumps({"type": "start"} | start))
            for packet in packets(audio, 3_199):
                await socket.send(packet)
            said: dict[str, list[str]] = {"customer": [], "assistant": []}
            while [" ".join(texts) for texts in said.values()] != own:
                message = json.loads(await socket.recv())
                assert message["type"] == "transcriber-response"
                if message["transcriptType"] == "final":
                    said[message["channel"]].append(message["transcription"])
