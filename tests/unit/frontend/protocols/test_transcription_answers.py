"""The answers to transcription requests: warnings, OpenAI's events and vLLM's chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import openai
import pytest

from auricle.frontend.recordings.transcriber import RecordingSegment, Whole
from auricle.protocol.sessions import ScoredToken
from auricle.protocol.stream import Usage
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
RECORDING = ("x.wav", b"RIFF")
TEN, GREEN = ScoredToken(b"ten", -0.125, 7), ScoredToken(b" green", -0.25, 8)
APPLES = ScoredToken(b"apples", -0.5, 9)
USED = Usage(prompt_tokens=40, output_tokens=3), Usage(prompt_tokens=20, output_tokens=2)
# The fields that `vllm bench serve --backend openai-audio` sends in addition to the file.
VLLM = {
    "model": "demo",
    "max_completion_tokens": "128",
    "stream": "True",
    "language": "en",
    "stream_include_usage": "True",
    "stream_continuous_usage_stats": "True",
}
SPOKEN = [
    RecordingSegment("ten green", 0, 16_000, "English", (TEN, GREEN), usage=USED[0]),
    RecordingSegment("apples", 16_000, 32_000, "English", (APPLES,), usage=USED[1]),
]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[RecordingSegment]:
    """The segments of the recordings."""
    segments = list(SPOKEN)

    async def transcribe(*_: object) -> AsyncGenerator[RecordingSegment | Whole, None]:
        for segment in segments:
            yield segment
        yield Whole(2.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    return segments


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording whose end is missing."""

    async def transcribe(*_: object) -> AsyncGenerator[RecordingSegment | Whole, None]:
        yield SPOKEN[0]
        yield Whole(2.0, warnings=(CUT,))

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)


def events(body: str) -> list[Any]:
    assert body.endswith("\n\n")
    lines = [event.removeprefix("data: ") for event in body.removesuffix("\n\n").split("\n\n")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.mark.usefixtures("said")
async def test_the_official_client_is_told_what_has_no_effect() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any")
        made = await client.audio.transcriptions.create(
            file=RECORDING,
            model="demo",
            keywords=["Ada", "Grace"],
            languages=["en", "de"],
            temperature=0.2,
        )
    assert made.text == "ten green apples"
    assert made.model_extra is not None
    assert [warning.split()[0] for warning in made.model_extra["warnings"]] == ["temperature"]


@pytest.mark.usefixtures("said")
async def test_the_official_client_gets_the_tokens_and_their_log_probabilities() -> None:
    expected = [("ten", -0.125), (" green", -0.25), (" apples", -0.5)]
    front = Front()
    async with asyncio.timeout(60), front.serving():
        client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any")
        made = await client.audio.transcriptions.create(
            file=RECORDING, model="demo", include=["logprobs"]
        )
        stream = await client.audio.transcriptions.create(
            file=RECORDING, model="demo", include=["logprobs"], stream=True
        )
        *_, done = [event async for event in stream]
        without = await client.audio.transcriptions.create(file=RECORDING, model="demo")
    for answer in (made, done):
        assert answer.logprobs is not None
        assert [(token.token, token.logprob) for token in answer.logprobs] == expected
    assert made.logprobs is not None
    assert made.logprobs[0].bytes == list(b"ten")
    assert without.logprobs is None


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("form", ["json", "verbose_json", "text", "srt", "vtt"])
@pytest.mark.parametrize("stream", ["false", "true"])
async def test_every_answer_says_it_in_a_header_and_only_then(form: str, stream: str) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        asked = {"response_format": form, "stream": stream}
        silent = await front.post(**asked)
        told = await front.post(**asked, temperature="0.2")
    assert "auricle-warnings" not in silent.headers
    assert "warnings" not in silent.text
    assert told.headers["auricle-warnings"] == "temperature has no effect: decoding is greedy"
    assert ("warnings" in told.text) == (form.endswith("json") or stream == "true")


CUT = "the file is cut off: about 8.0 s or more are missing"


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("form", ["json", "verbose_json", "text", "srt", "vtt"])
async def test_every_answer_tells_what_is_missing_from_the_recording(form: str) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(response_format=form)
    assert answer.headers["auricle-warnings"] == CUT
    if form.endswith("json"):
        assert answer.json()["warnings"] == [CUT]


@pytest.mark.usefixtures("missing")
async def test_a_stream_tells_what_is_missing_at_its_end() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        *_, done = events((await front.post(stream="true")).text)
        chunks = events((await front.post(stream="true", stream_include_usage="false")).text)
    assert done["warnings"] == [CUT]
    assert chunks[-2]["warnings"] == [CUT]


@pytest.mark.usefixtures("said")
async def test_a_stream_is_of_openais_events() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(stream="true")
    assert events(answer.text) == [
        {"type": "transcript.text.delta", "delta": "ten green"},
        {"type": "transcript.text.delta", "delta": " apples"},
        {
            "type": "transcript.text.done",
            "text": "ten green apples",
            "usage": {
                **{"type": "tokens", "input_tokens": 60, "output_tokens": 5, "total_tokens": 65}
            },
            "duration": 2.0,
        },
    ]


@pytest.mark.parametrize("silent", [False, True])
async def test_a_client_of_vllm_gets_its_chunks(said: list[RecordingSegment], silent: bool) -> None:
    if silent:
        said.clear()
    front = Front()
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        url = f"{front.url}/v1/audio/transcriptions"
        answer = await client.post(url, data=VLLM, files={"file": RECORDING})
    *chunks, usage, end = events(answer.text)
    assert end == "[DONE]"
    read, written = (0, 0) if silent else (60, 5)
    assert usage["choices"] == []
    assert usage["usage"] == {
        **{"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    }
    assert {(c["object"], c["model"], c["id"]) for c in (*chunks, usage)} == {
        ("transcription.chunk", "demo", usage["id"])
    }
    [*texts, last] = [chunk["choices"][0] for chunk in chunks]
    assert [text["delta"]["content"] for text in texts] == (
        [] if silent else ["ten green", " apples"]
    )
    assert (last["delta"]["content"], last["finish_reason"]) == ("", "stop")


@pytest.mark.usefixtures("said")
async def test_usage_follows_the_chunks_only_if_asked_for() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(stream="true", stream_include_usage="false")
    assert "usage" not in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
