"""Speakers of recordings: in a part, and in the answers to OpenAI's and Deepgram's clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import httpx
import openai
import pytest
from msgspec.structs import replace
from openai.types.audio import (
    TranscriptionDiarized,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionTextSegmentEvent,
)

from auricle.frontend.recordings.annotations import (
    PartSpeakers,
    PartWords,
    Voices,
    missing_speakers,
    speakers_of,
)
from auricle.frontend.recordings.parts import RecordingPart
from auricle.frontend.recordings.transcriber import (
    PartTranscript,
    Recording,
    RecordingSegment,
    Saying,
    Whole,
    by_speaker,
)
from auricle.protocol.annotation import SegmentSpeakers
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentWords, SessionDone
from auricle.protocol.stream import SpeakerPart, Usage, Word
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
RECORDING = ("x.wav", b"RIFF")
SPEAKERS = {"speaker_model": "models/speakers"}
ALIGNED = {**SPEAKERS, "align_model": "models/aligner"}
DID, YOU, NO = (
    Word("Did", "Did ", 1_000, 1_200, 0.9),
    Word("you", "you? ", 1_200, 1_500, 0.7),
    Word("No", "No.", 1_600, 1_900, 0.5),
)
ASKED, ANSWERED = SpeakerPart(1, 1_000, 1_520, "Did you? "), SpeakerPart(2, 1_580, 1_900, "No.")
BOTH = RecordingSegment(
    *("Did you? No.", 16_000, 32_000, "English"),
    words=PartWords((DID, YOU, NO)),
    speakers=PartSpeakers((ASKED, ANSWERED)),
)
LATE = RecordingSegment("Well.", 0, 16_000, "English", speakers=PartSpeakers(missing="deadline"))
NOT_KNOWN = "1 segments have no speakers: deadline"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The recordings that the transcriber received."""
    recordings: list[Recording] = []

    async def transcribe(
        _transcriber: object, recording: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        recordings.append(recording)
        yield LATE
        yield BOTH
        yield Whole(2.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    return recordings


def official(front: Front) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any", max_retries=0)


async def listened(query: str, **settings: Any) -> dict[str, Any]:
    front = Front(**settings)
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{front.url}/v1/listen?{query}", content=b"RIFF")
    return cast(dict[str, Any], answer.json())


# ── a part's speakers ───────────────────────────────────────────────────────


def test_speakers_of_a_part_that_was_cut_make_its_text() -> None:
    nothing = SpeakerPart(1, 1_900, 2_100, "")  # a turn without matching text
    first = SegmentSpeakers(0, (ASKED, ANSWERED, nothing), "aligned", state=b"++")
    second = SegmentSpeakers(1, (nothing, SpeakerPart(1, 2_200, 2_900, "Well.")), "aligned")
    part = speakers_of([first, second])
    assert "".join(turn.text for turn in part.turns) == "Did you? No. Well."
    assert [turn.speaker for turn in part.turns] == [1, 2, 1]
    assert (part.missing, part.rough) == ("", False)


def test_a_part_of_which_not_all_is_known_has_no_speakers() -> None:
    told = SegmentSpeakers(0, (ASKED,), "aligned"), SegmentSpeakers(1, missing="overloaded")
    assert speakers_of(told) == PartSpeakers(missing="overloaded")
    assert missing_speakers([speakers_of(told), PartSpeakers((ASKED,))]) == [
        "1 segments have no speakers: overloaded"
    ]


@pytest.mark.parametrize(
    ("parts", "source", "rough"),
    [
        ((ASKED, ANSWERED), "commit_grid", True),
        ((ASKED, ANSWERED), "aligned", False),
        ((ASKED,), "commit_grid", False),  # there is nothing to divide
    ],
)
def test_text_that_is_divided_by_guesses_is_said_to_be(
    parts: tuple[SpeakerPart, ...], source: Any, rough: bool
) -> None:
    part = speakers_of([SegmentSpeakers(0, parts, source)])
    assert part.rough == rough
    said = ["1 segments are divided among speakers by rough times of words"]
    assert missing_speakers([part]) == (said if rough else [])


def test_what_a_processor_tells_of_a_part_that_it_cut_is_joined() -> None:
    """Speakers arrive late: a segment's speakers may follow the next segment's text."""
    transcript = PartTranscript()
    for event in (
        SegmentFinal(0, "Did you?", 1_000, 1_500, "English", ResumePoint()),
        SegmentFinal(1, "", 1_500, 1_550, "", ResumePoint()),
        SegmentFinal(2, "No.", 1_550, 2_000, "German", ResumePoint()),
        SegmentWords(2, (NO,), "aligned"),
        SegmentSpeakers(0, (replace(ASKED, text="Did you?"),), "aligned", state=b"+"),
        SegmentWords(0, (DID, replace(YOU, text="you?")), "aligned"),
        SegmentSpeakers(2, (ANSWERED,), "aligned", state=b"++"),
        SessionDone(Usage()),
    ):
        transcript.add(event)
    part = transcript.segment(RecordingPart(0, 32_000, b""))
    assert (part.text, part.language) == ("Did you? No.", "English")
    assert part.speakers == PartSpeakers((ASKED, ANSWERED))
    assert part.words == PartWords((DID, YOU, NO))
    assert transcript.voices(Voices()).state == b"++"


def test_words_go_to_those_who_say_them() -> None:
    assert by_speaker(BOTH) == [
        Saying(1, 1_000, 1_520, "Did you? ", (DID, YOU)),
        Saying(2, 1_580, 1_900, "No.", (NO,)),
    ]


def test_what_nobody_is_known_to_say_is_one_saying() -> None:
    assert by_speaker(LATE) == [Saying(None, 0, 1_000, "Well.", ())]


def test_a_pool_that_answers_again_is_asked_again() -> None:
    late, there = (
        SegmentSpeakers(0, missing="deadline", state=b"+"),
        SegmentSpeakers(0, (ASKED,), state=b"++"),
    )
    voices = Voices(b"+")
    for told, given_up in ((late, False), (late, False), (there, False), (late, False)):
        voices = voices.after([told])
        assert voices.given_up == given_up
    assert voices.state == b"+"
    assert voices.after([late]).after([late]).given_up


@pytest.mark.parametrize("why", ["starting", "nobody_heard", "no_audio", "processor_lost"])
def test_what_costs_no_waiting_is_asked_again(why: str) -> None:
    voices = Voices()
    for _ in range(10):
        voices = voices.after([SegmentSpeakers(0, missing=why)])
    assert not voices.given_up


# ── OpenAI's API ────────────────────────────────────────────────────────────


async def test_the_official_client_is_told_who_says_what(asked: list[Recording]) -> None:
    front = Front(**ALIGNED)
    async with asyncio.timeout(60), front.serving():
        made = await official(front).audio.transcriptions.create(
            file=RECORDING, model="demo", response_format="diarized_json"
        )
    assert isinstance(made, TranscriptionDiarized)
    made = TranscriptionDiarized.model_validate(made.model_dump(), strict=True)
    assert (made.task, made.text, made.duration) == ("transcribe", "Well. Did you? No.", 2.0)
    assert made.usage is not None and made.usage.type == "duration"
    assert [(one.id, one.speaker, one.start, one.end, one.text) for one in made.segments] == [
        ("seg_001", "unknown", 0.0, 1.0, "Well."),
        ("seg_002", "A", 1.0, 1.52, "Did you?"),
        ("seg_003", "B", 1.58, 1.9, "No."),
    ]
    assert made.model_extra is not None
    assert made.model_extra["warnings"] == [NOT_KNOWN]
    (recording,) = asked
    assert (recording.diarize, recording.words) == (True, True)  # word times divide the text


@pytest.mark.parametrize("form", ["verbose_json", "diarized_json"])
async def test_one_answer_has_speakers_and_words(asked: list[Recording], form: str) -> None:
    front = Front(**ALIGNED)
    fields = {"timestamp_granularities[]": "word", "speakers": "true", "response_format": form}
    async with asyncio.timeout(60), front.serving():
        answer = (await front.post(**fields)).json()
    turns = answer["speakers" if form == "verbose_json" else "segments"]
    assert [(one["speaker"], one["text"]) for one in turns] == [
        ("unknown", "Well."),
        ("A", "Did you?"),
        ("B", "No."),
    ]
    assert [word["word"] for word in answer["words"]] == ["Did", "you", "No"]
    assert len(answer["segments"]) == (2 if form == "verbose_json" else 3)
    assert (asked[0].diarize, asked[0].words) == (True, True)


async def test_a_request_may_limit_the_speakers(asked: list[Recording]) -> None:
    front = Front(**ALIGNED)
    async with asyncio.timeout(60), front.serving():
        await front.post(response_format="diarized_json", max_speakers="2")
        unused = (await front.post(max_speakers="2")).json()
        refused = (await front.post(response_format="diarized_json", max_speakers="17")).json()
    assert [recording.max_speakers for recording in asked] == [2, 2]
    assert unused["warnings"] == ["max_speakers has no effect: the answer has no speakers"]
    assert refused["error"]["param"] == "max_speakers"
    assert "from 1 to 16" in refused["error"]["message"]


@pytest.mark.usefixtures("asked")
async def test_speakers_without_a_speaker_model_are_refused_by_their_field() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(response_format="verbose_json", speakers="true")
    assert answer.json()["error"]["param"] == "speakers"


@pytest.mark.usefixtures("asked")
async def test_a_stream_tells_each_segment_and_its_text() -> None:
    front = Front(**ALIGNED)
    async with asyncio.timeout(60), front.serving():
        stream = await official(front).audio.transcriptions.create(
            file=RECORDING, model="demo", response_format="diarized_json", stream=True
        )
        *events, done = [event async for event in stream]
    deltas = [event for event in events if isinstance(event, TranscriptionTextDeltaEvent)]
    segments = [event for event in events if isinstance(event, TranscriptionTextSegmentEvent)]
    assert [event.type.split(".")[-1] for event in events] == ["delta", "segment"] * 3
    assert isinstance(done, TranscriptionTextDoneEvent)
    assert "".join(one.delta for one in deltas) == done.text == "Well. Did you? No."
    assert [one.segment_id for one in deltas] == [one.id for one in segments]
    assert [(one.speaker, one.text) for one in segments] == [
        ("unknown", "Well."),
        ("A", "Did you?"),
        ("B", "No."),
    ]
    assert done.model_extra is not None
    assert done.model_extra["warnings"] == [NOT_KNOWN]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deployment_without_a_speaker_model_refuses_speakers_before_it_decodes(
    asked: list[Recording], stream: bool
) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        create: Any = official(front).audio.transcriptions.create
        with pytest.raises(openai.BadRequestError, match="no speaker model") as refused:
            await create(
                file=RECORDING, model="demo", response_format="diarized_json", stream=stream
            )
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "response_format")
    assert not asked


@pytest.mark.parametrize(
    ("fields", "diarized", "words"),
    [
        ({"response_format": "diarized_json"}, True, False),  # no aligner
        ({"response_format": "json"}, False, False),
        ({"response_format": "json", "speakers": "true"}, False, False),
        ({"response_format": "verbose_json", "speakers": "true", "stream": "true"}, False, False),
        ({"response_format": "verbose_json", "speakers": "true"}, True, False),
        ({"response_format": "diarized_json", "stream": "true"}, True, False),
    ],
)
async def test_who_does_not_ask_is_not_told(
    asked: list[Recording], fields: dict[str, str], diarized: bool, words: bool
) -> None:
    front = Front(**SPEAKERS)
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(**fields)
    assert answer.status_code == 200
    assert ((recording := asked[0]).diarize, recording.words) == (diarized, words)
    assert ('"speaker"' in answer.text) == diarized


async def test_a_client_of_vllm_is_told_that_its_stream_has_no_speakers(
    asked: list[Recording],
) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(
            response_format="diarized_json", stream="true", stream_include_usage="true"
        )
    said = "response_format has no effect: a stream of chunks has no speakers"
    assert answer.headers["auricle-warnings"] == said
    assert not asked[0].diarize


# ── Deepgram's API ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("query", ["diarize=true", "diarize_model=latest"])
async def test_deepgrams_words_and_utterances_have_speakers(
    asked: list[Recording], query: str
) -> None:
    answer = await listened(f"utterances=true&{query}", **ALIGNED)
    (told,) = answer["results"]["channels"][0]["alternatives"]
    assert [(word["punctuated_word"], word["speaker"]) for word in told["words"]] == [
        ("Did", 0),
        ("you?", 0),
        ("No.", 1),
    ]
    assert told["transcript"] == "Well. Did you? No."
    utterances = answer["results"]["utterances"]
    assert [
        (one.get("speaker"), one["transcript"], one["start"], one["end"], one["confidence"])
        for one in utterances
    ] == [
        (None, "Well.", 0.0, 1.0, 0.0),
        (0, "Did you?", 1.0, 1.52, pytest.approx(0.8)),
        (1, "No.", 1.58, 1.9, 0.5),
    ]
    assert [word["speaker"] for word in utterances[1]["words"]] == [0, 0]
    assert len({one["id"] for one in utterances}) == 3
    assert answer["metadata"]["warnings"] == [NOT_KNOWN]
    assert asked[0].diarize


async def test_deepgrams_clients_hear_why_nobody_is_told(asked: list[Recording]) -> None:
    answer = await listened("diarize=true")
    (warning, *_) = answer["metadata"]["warnings"]
    assert warning.startswith("diarize has no effect: this deployment has no speaker model")
    assert not asked[0].diarize


async def test_there_is_one_model_of_speakers(asked: list[Recording]) -> None:
    answer = await listened("diarize_model=v1", **SPEAKERS)
    said = "diarize_model 'v1' has no effect: there is one model"
    assert said in answer["metadata"]["warnings"]
    assert asked[0].diarize
