"""`WS /v1/listen` with the official client, unmodified."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import numpy as np
import pytest

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import ROOT, Server

deepgram = pytest.importorskip("deepgram", reason="run make setup")
from deepgram.core.api_error import ApiError  # noqa: E402
from deepgram.environment import DeepgramClientEnvironment  # noqa: E402

pytestmark = pytest.mark.end_to_end
PACKET = 3_200
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def pcm(name: str, silence_seconds: float = 0.0) -> bytes:
    samples = np.concatenate([recordings.samples(name), np.zeros(int(16_000 * silence_seconds))])
    return np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes()


@asynccontextmanager
async def listening(server: Server, **options: Any) -> AsyncIterator[Any]:
    url = server.url
    environment = DeepgramClientEnvironment(
        base=url, production=url.replace("http", "ws"), agent=url, agent_rest=url
    )
    client = deepgram.AsyncDeepgramClient(api_key="any", environment=environment)
    audio = {"model": "demo", "encoding": "linear16", "sample_rate": 16_000}
    async with client.listen.v1.connect(**audio | options) as connection:
        yield connection


async def send(connection: Any, audio: bytes) -> None:
    for start in range(0, len(audio), PACKET):
        await connection.send_media(audio[start : start + PACKET])


async def rest(connection: Any) -> list[Any]:
    """The messages that follow, to the session's end."""
    async with asyncio.timeout(120):
        return [message async for message in connection]


def text(messages: list[Any]) -> str:
    finals = [m.channel.alternatives[0].transcript for m in messages if is_final(m)]
    return " ".join(final for final in finals if final)


def is_final(message: Any) -> bool:
    return bool(message.type == "Results" and message.is_final)


async def test_the_words_are_those_of_our_own_protocol(server: Server) -> None:
    for name in ("hello", "station"):
        samples = recordings.samples(name)
        own = [e async for e in stream_file(server.url, samples, live=False)]
        async with listening(server) as connection:
            await send(connection, pcm(name))
            await connection.send_close_stream()
            messages = await rest(connection)
        assert text(messages) == own[-1]["text"]
        assert messages[-1].type == "Metadata"
        assert messages[-1].sha256 == hashlib.sha256(pcm(name)).hexdigest()
        assert messages[-1].duration == pytest.approx(len(samples) / 16_000, abs=0.001)
        assert all(m.is_final for m in messages[:-1])


async def test_an_utterance_is_told_from_its_start_to_its_end(server: Server) -> None:
    asked = {"vad_events": True, "utterance_end_ms": 1000, "interim_results": True}
    async with listening(server, **asked, endpointing=300, smart_format=True) as connection:
        await send(connection, pcm("hello", silence_seconds=2.0))
        messages: list[Any] = []
        async with asyncio.timeout(120):
            while not messages or messages[-1].type != "UtteranceEnd":
                messages.append(await connection.recv())
        kinds = [message.type for message in messages]
        assert "SpeechStarted" in kinds
        results = [message for message in messages if message.type == "Results"]
        assert not results[0].is_final
        assert results[-1].is_final and results[-1].speech_final
        await connection.send_close_stream()
        (metadata,) = await rest(connection)
        assert metadata.warnings == ["smart_format has no effect"]


async def test_finalize_gives_the_text_at_once_and_the_session_goes_on(server: Server) -> None:
    async with listening(server) as connection:
        await send(connection, pcm("hello"))
        await connection.send_finalize()
        messages: list[Any] = []
        async with asyncio.timeout(120):
            while not messages or not messages[-1].from_finalize:
                messages.append(await connection.recv())
        first = text(messages)
        assert first
        await connection.send_keep_alive()
        await connection.send_finalize()  # in silence: there is nothing to be told
        empty = await connection.recv()
        assert empty.from_finalize and not text([empty])
        await send(connection, pcm("hello"))
        await connection.send_close_stream()
        assert text(await rest(connection))


@pytest.mark.parametrize(("options", "status"), [({"channels": 2}, 400), ({"model": "x"}, 404)])
async def test_options_that_cannot_be_served_are_refused_at_the_handshake(
    server: Server, options: dict[str, Any], status: int
) -> None:
    with pytest.raises(ApiError) as refused:
        async with listening(server, **options):
            pass
    assert refused.value.status_code == status


async def test_the_example_in_the_docs_prints_the_words(server: Server) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs/deepgram.md").read_text())
    names: dict[str, Any] = {
        "AsyncDeepgramClient": deepgram.AsyncDeepgramClient,
        "DeepgramClientEnvironment": DeepgramClientEnvironment,
        "url": server.url,
        "pcm": pcm("hello"),
    }
    exec(f"async def example():\n{textwrap.indent(example, '    ')}", names)
    printed = io.StringIO()
    async with asyncio.timeout(120):
        with redirect_stdout(printed):
            await names["example"]()
    own = [e async for e in stream_file(server.url, recordings.samples("hello"), live=False)]
    assert " ".join(printed.getvalue().split()) == own[-1]["text"]
