"""Wyoming, Home Assistant's protocol, with its own client, unmodified."""

from __future__ import annotations

import asyncio
import io
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import numpy as np
import pytest

from auricle.audio.pcm import to_int16
from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server

pytest.importorskip("wyoming", reason="run make setup")
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

pytestmark = pytest.mark.end_to_end
FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def pcm(name: str, silence_seconds: float = 0.0) -> bytes:
    silence = np.zeros(int(16_000 * silence_seconds), np.float32)
    return to_int16(np.concatenate([recordings.samples(name), silence])).tobytes()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[AsyncTcpClient]:
    async with asyncio.timeout(120), AsyncTcpClient("127.0.0.1", port) as client:
        yield client


async def say(client: AsyncTcpClient, audio: bytes, **asked: Any) -> None:
    """Like Home Assistant's speech-to-text, send everything before reading anything."""
    await client.write_event(Transcribe(**asked).event())
    await client.write_event(AudioStart(**FORMAT).event())
    for start in range(0, len(audio), 2_048):
        chunk = AudioChunk(**FORMAT, audio=audio[start : start + 2_048])
        await client.write_event(chunk.event())
    await client.write_event(AudioStop().event())


async def heard(client: AsyncTcpClient) -> list[Event]:
    """The answers to one utterance."""
    events: list[Event] = []
    while not events or events[-1].type not in ("transcript-stop", "error"):
        event = await client.read_event()
        assert event is not None, f"the connection was closed after {events}"
        events.append(event)
    return events


async def own_words(server: Server, name: str) -> str:
    samples = recordings.samples(name)
    own = [event async for event in stream_file(server.url, samples, live=False)]
    return str(own[-1]["text"])


async def test_the_words_are_those_of_our_own_protocol(server: Server, wyoming_port: int) -> None:
    async with connected(wyoming_port) as client:
        for name in ("station", "hello"):  # one connection may have several utterances
            await say(client, pcm(name), language="en-GB")
            events = await heard(client)
            kinds = [event.type for event in events]
            chunks = [TranscriptChunk.from_event(e) for e in events if e.type == "transcript-chunk"]
            assert kinds == [
                *("transcript-start", *["transcript-chunk"] * len(chunks)),
                *("transcript", "transcript-stop"),
            ]
            transcript = Transcript.from_event(events[-2])
            assert transcript.text == await own_words(server, name)
            assert "".join(chunk.text for chunk in chunks) == transcript.text
            assert transcript.language == "en"


async def test_text_comes_while_audio_is_still_sent(server: Server, wyoming_port: int) -> None:
    async with connected(wyoming_port) as client:
        await client.write_event(AudioStart(**FORMAT).event())
        await client.write_event(AudioChunk(**FORMAT, audio=pcm("station", 1.0)).event())
        assert (await client.read_event()).type == "transcript-start"
        assert (await client.read_event()).type == "transcript-chunk"
        await client.write_event(AudioStop().event())
        assert (await heard(client))[-2].type == "transcript"


async def test_what_is_served_is_described(wyoming_port: int) -> None:
    async with connected(wyoming_port) as client:
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
        (program,) = info.asr
        assert program.supports_transcript_streaming and program.requires_external_vad
        (model,) = program.models
        assert (model.name, model.languages, model.installed) == ("demo", ["en"], True)
        await client.write_event(Ping(text="there?").event())
        assert Pong.from_event(await client.read_event()).text == "there?"


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"name": "whisper"}, "model_not_found"), ({"language": "xx"}, "unsupported_value")],
)
async def test_what_cannot_be_done_is_told_and_the_connection_closed(
    wyoming_port: int, asked: dict[str, Any], code: str
) -> None:
    async with connected(wyoming_port) as client:
        await say(client, pcm("hello"), **asked)
        (event,) = await heard(client)
        assert Error.from_event(event).code == code
        assert await client.read_event() is None


async def test_the_example_in_the_docs_prints_the_words(server: Server, wyoming_port: int) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs/wyoming.md").read_text())
    names: dict[str, Any] = {"port": wyoming_port, "pcm": pcm("hello")}
    exec(f"async def example():\n{textwrap.indent(example, '    ')}", names)
    printed = io.StringIO()
    async with asyncio.timeout(120):
        with redirect_stdout(printed):
            await names["example"]()
    assert printed.getvalue().strip() == await own_words(server, "hello")
