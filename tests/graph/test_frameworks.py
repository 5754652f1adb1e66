"""Requests of OpenAI's client, agent frameworks and vLLM's benchmark, on the real graph."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import jiwer
import openai
import pytest
import websockets

from auricle_testing import recordings
from auricle_testing.server import Server
from tests.frameworks import LIVEKIT, LIVEKIT_LIVE, PIPECAT, PIPECAT_SERVER_VAD
from tests.pcm import resampled_pcm

pytestmark = pytest.mark.end_to_end
DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
PACKET = 4_800


class Connection:
    """A framework's connection, which fails at any `error` event, as the frameworks do."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self.received: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def append(self, audio: bytes) -> None:
        for start in range(0, len(audio), PACKET):
            packet = base64.b64encode(audio[start : start + PACKET]).decode()
            await self.send("input_audio_buffer.append", audio=packet)

    async def until(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(120):
            while True:
                self.received.append(json.loads(await self._socket.recv()))
                assert self.received[-1]["type"] != "error", self.received[-1]
                if self.received[-1]["type"] == kind:
                    return self.received[-1]

    @property
    def deltas(self) -> str:
        return "".join(event["delta"] for event in self.received if event["type"] == DELTA)


@asynccontextmanager
async def connected(server: Server, session: dict[str, Any]) -> AsyncIterator[Connection]:
    model = session["audio"]["input"]["transcription"].get("model", "demo")
    address = f"{server.url.replace('http', 'ws')}/v1/realtime?intent=transcription&model={model}"
    async with websockets.connect(address) as socket:
        connection = Connection(socket)
        await connection.until("session.created")
        await connection.send("session.update", session=session)
        await connection.until("session.updated")
        yield connection


@pytest.mark.parametrize("session", [LIVEKIT, PIPECAT_SERVER_VAD], ids=["livekit", "pipecat"])
async def test_a_framework_that_leaves_turns_to_the_server(
    server: Server, session: dict[str, Any]
) -> None:
    async with connected(server, session) as connection:
        await connection.append(resampled_pcm("hello").tobytes())
        done = await connection.until(COMPLETED)
    kinds = [event["type"] for event in connection.received]
    started = kinds.index("input_audio_buffer.speech_started")
    stopped = kinds.index("input_audio_buffer.speech_stopped")
    assert started < stopped < kinds.index(COMPLETED)
    assert connection.deltas == done["transcript"]
    assert jiwer.wer(recordings.words("hello"), done["transcript"]) <= 0.34


@pytest.mark.parametrize("session", [LIVEKIT_LIVE, PIPECAT], ids=["livekit", "pipecat"])
async def test_a_framework_that_ends_turns_itself(server: Server, session: dict[str, Any]) -> None:
    async with connected(server, session) as connection:
        for name in ("hello", "market"):
            await connection.append(resampled_pcm(name).tobytes())
            await connection.send("input_audio_buffer.commit")
            done = await connection.until(COMPLETED)
            assert jiwer.wer(recordings.words(name), done["transcript"]) <= 0.34
        # A framework that detected speech where the server detects none commits, too.
        await connection.append(bytes(24_000))
        await connection.send("input_audio_buffer.commit")
        assert (await connection.until(COMPLETED))["transcript"] == ""
    assert not [e for e in connection.received if "buffer.speech_" in e["type"]]


async def test_text_that_is_wanted_soon_comes_within_the_turn_and_stays(server: Server) -> None:
    transcription = {"delay": "minimal", "keywords": ["market"]}
    session = {"audio": {"input": {"transcription": transcription, "turn_detection": None}}}
    async with connected(server, session) as connection:
        audio = resampled_pcm("market").tobytes()
        # 2.5 s; the rest follows after the first text.
        await connection.append(audio[:120_000])
        await connection.until(DELTA)
        await connection.append(audio[120_000:])
        await connection.send("input_audio_buffer.commit")
        done = await connection.until(COMPLETED)
    assert connection.deltas == done["transcript"]
    assert jiwer.wer(recordings.words("market"), done["transcript"]) <= 0.34


async def test_log_probabilities_come_with_the_same_words(server: Server) -> None:
    scored = ["item.input_audio_transcription.logprobs"]
    said = []
    # Decoded once, so that both sessions decode the same; and often, so that tokens are committed
    # before the last decode.
    for include, chunk_ms in ((None, 10_000), (scored, 10_000), (scored, 320)):
        session = {
            "include": include,
            "audio": {"input": {"transcription": {"chunk_ms": chunk_ms}}},
        }
        async with connected(server, session) as connection:
            await connection.append(resampled_pcm("hello").tobytes())
            said.append(await connection.until(COMPLETED))
    assert said[0]["transcript"] == said[1]["transcript"]
    assert "logprobs" not in said[0]
    for done in said[1:]:
        assert "".join(token["token"] for token in done["logprobs"]) == done["transcript"]
        assert all(token["logprob"] <= 0 for token in done["logprobs"])


async def test_the_official_client_with_its_own_model_and_hints(server: Server) -> None:
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any")
    with recordings.path("hello").open("rb") as file:
        made = await client.audio.transcriptions.create(
            file=file,
            model="gpt-transcribe",
            languages=["en"],
            keywords=["Ada Lovelace"],
            temperature=0.2,
            include=["logprobs"],
        )
    assert jiwer.wer(recordings.words("hello"), made.text) <= 0.34
    assert made.model_extra is not None
    warnings = made.model_extra["warnings"]
    assert "temperature has no effect: decoding is greedy" in warnings
    assert "model 'gpt-transcribe' is not served here; demo has replaced it" in warnings
    assert made.logprobs
    assert "".join(token.token or "" for token in made.logprobs) == made.text
    assert all(token.logprob is not None and token.logprob <= 0 for token in made.logprobs)


async def test_a_model_that_tells_speakers_apart_is_not_served(server: Server) -> None:
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any")
    with pytest.raises(openai.NotFoundError, match="gpt-4o-transcribe-diarize"):
        await client.audio.transcriptions.create(
            file=recordings.path("hello"), model="gpt-4o-transcribe-diarize"
        )


async def test_vllms_benchmark_client_gets_text(server: Server) -> None:
    from vllm.benchmarks.lib.endpoint_request_func import (
        RequestFuncInput,
        async_request_openai_audio,
    )

    asked = RequestFuncInput(
        prompt="",
        api_url=f"{server.url}/v1/audio/transcriptions",
        prompt_len=1,
        output_len=128,
        model="demo",
        multi_modal_content={"audio_path": str(recordings.path("hello"))},
    )
    async with aiohttp.ClientSession() as session:
        output = await async_request_openai_audio(asked, session)
    assert output.success, output.error
    assert jiwer.wer(recordings.words("hello"), output.generated_text) <= 0.34
