"""Words in each protocol's own format: requests, results, and errors without an aligner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest
import websockets

from auricle.client.events import typed
from auricle.frontend.link.session_line import SessionLine
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream import session as replies
from auricle.frontend.recordings.annotations import PartWords
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentWords,
    SessionReady,
)
from auricle.protocol.stream import Word
from auricle.protocol.stream import Word as ClientWord
from auricle.protocol.stream import Words as ClientWords
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
WORD = Word("Hello", "Hello.", 1_040, 1_360, 0.9)
RECORDING = ("x.wav", b"RIFF")
TIMED: dict[str, Any] = {
    "response_format": "verbose_json",
    "timestamp_granularities": ["word"],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The recordings that the transcriber received."""
    recordings: list[Recording] = []

    async def transcribe(
        _transcriber: object, recording: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        recordings.append(recording)
        yield RecordingSegment("Hello.", 16_000, 32_000, "English", words=PartWords((WORD,)))
        yield RecordingSegment(
            "there", 32_000, 48_000, "English", words=PartWords(missing="deadline")
        )
        yield Whole(3.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    return recordings


async def test_the_official_client_gets_words_and_hears_what_is_missing(
    asked: list[Recording],
) -> None:
    front = Front(align_model="models/aligner")
    async with asyncio.timeout(60), front.serving():
        client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any")
        told: Any = await client.audio.transcriptions.create(file=RECORDING, model="demo", **TIMED)
        plain: Any = await client.audio.transcriptions.create(
            file=RECORDING, model="demo", response_format="verbose_json"
        )
    (word,) = told.words
    assert (word.word, word.start, word.end) == ("Hello", 1.04, 1.36)
    assert word.confidence == 0.9
    assert told.warnings == ["1 segments have no times of words: deadline"]
    assert plain.words is None
    assert [recording.words for recording in asked] == [True, False]


async def test_subtitles_are_cut_at_words(asked: list[Recording]) -> None:
    front = Front(align_model="models/aligner")
    async with asyncio.timeout(60), front.serving():
        client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any")
        told: Any = await client.audio.transcriptions.create(
            file=RECORDING,
            model="demo",
            response_format="srt",
            extra_body={"max_line_characters": 40},
        )
    # The second segment, whose words have no times, is one subtitle.
    assert "00:00:01,040 --> 00:00:01,360\nHello.\n" in told
    assert "00:00:02,000 --> 00:00:03,000\nthere\n" in told
    assert asked[0].words


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (TIMED, "timestamp_granularities"),
        (
            {"response_format": "vtt", "extra_body": {"max_line_characters": 40}},
            "max_line_characters",
        ),
    ],
)
async def test_a_deployment_without_an_aligner_refuses_words_of_recordings(
    asked: list[Recording], fields: dict[str, Any], param: str
) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        client = openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any")
        with pytest.raises(openai.BadRequestError, match="no aligner") as refused:
            await client.audio.transcriptions.create(file=RECORDING, model="demo", **fields)
    assert refused.value.param == param
    assert not asked


async def test_a_deployment_without_an_aligner_refuses_words_of_sessions() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        url = front.url.replace("http", "ws") + "/v1/audio/stream"
        async with websockets.connect(url) as socket:
            await socket.send(json.dumps({"type": "start", "sample_rate": 16_000, "words": True}))
            told = json.loads(await socket.recv())
    assert (told["type"], told["code"], told["param"]) == ("error", "unsupported_value", "words")


def test_words_are_told_as_the_client_reads_them() -> None:
    told = protocol.encode(replies.words_reply(SegmentWords(3, (WORD,), "aligned")))
    assert json.loads(told) == {
        "type": "words",
        "segment": 3,
        "words": [
            {
                "word": "Hello",
                "text": "Hello.",
                "start_ms": 1_040,
                "end_ms": 1_360,
                "confidence": 0.9,
            }
        ],
        "source": "aligned",
        "confidence": 0.9,
    }
    word = ClientWord("Hello", "Hello.", 1_040, 1_360, 0.9)
    assert typed(json.loads(told)) == ClientWords(3, (word,), "aligned", None, 0.9)
    unknown = SegmentWords(3, (Word("Hello", "Hello.", 1_040, 1_360),), "aligned")
    assert "confidence" not in protocol.encode(replies.words_reply(unknown))
    missing = protocol.encode(replies.words_reply(SegmentWords(3, (), None, "unavailable")))
    assert json.loads(missing)["missing"] == "unavailable"
    assert typed(json.loads(missing)) == ClientWords(3, (), None, "unavailable")


def line(*, words: bool) -> SessionLine:
    subject = SessionLine(OpenSession("s", "t", None, "", 640, words=words))
    subject.receive(SessionReady("s"))
    return subject


def final(number: int, text: str = "one") -> SegmentFinal:
    return SegmentFinal(number, text, 0, 1_000, "English", ResumePoint(number + 1))


def test_words_that_were_lost_with_a_processor_are_said_to_be() -> None:
    subject = line(words=True)
    for event in (final(0), final(1, ""), final(2), SegmentWords(0, (WORD,), "aligned")):
        assert subject.receive(event)
    subject.lost()
    assert subject.lost_annotations() == [SegmentWords(2, (), None, "processor_lost")]
    assert subject.lost_annotations() == []


def test_nothing_is_lost_of_words_that_nobody_asked_for() -> None:
    subject = line(words=False)
    subject.receive(final(0))
    assert subject.lost_annotations() == []
