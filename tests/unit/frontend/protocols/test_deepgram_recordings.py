"""`POST /v1/listen`: options, answers, and errors."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from auricle.core.errors import BadRequest, UndecodableAudio
from auricle.frontend.protocols.deepgram.options import RecordingOptions, parse_recording_options
from auricle.frontend.recordings.annotations import PartWords
from auricle.frontend.recordings.transcriber import (
    DecodedSeconds,
    Recording,
    RecordingSegment,
    Whole,
)
from auricle.frontend.transport.access.keys import new_key
from auricle.protocol.stream import Word
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
Outputs = AsyncGenerator[DecodedSeconds | RecordingSegment | Whole, None]


def damaged(recording: Recording) -> bool:
    return recording.path.read_bytes() == b"broken"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """The recordings that the transcriber received; each has two channels."""
    recordings: list[Recording] = []

    async def transcribe(_transcriber: object, recording: Recording) -> Outputs:
        recordings.append(recording)
        if damaged(recording):
            raise UndecodableAudio("the recording is damaged")
        yield DecodedSeconds(2.0)
        who = "both" if recording.channel is None else f"channel {recording.channel}"
        yield RecordingSegment(f"{who} said", 0, 16_000, "English")
        yield RecordingSegment("", 16_000, 20_000, "")
        yield RecordingSegment("hello", 20_000, 32_000, "English")
        yield Whole(2.0, 1 if recording.channel is None else 2)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    return recordings


async def posted(
    query: str = "", body: bytes = b"RIFF", front: Front | None = None, **headers: str
) -> httpx.Response:
    front = front or Front()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{front.url}/v1/listen?{query}", content=body, headers=named)


async def test_words_have_times_where_there_is_an_aligner(
    asked: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = RecordingSegment(
        "Both said.",
        16_000,
        32_000,
        "English",
        words=PartWords(
            (Word("Both", "Both ", 1000, 1400, 0.9), Word("said", "said.", 1400, 1800, 0.7))
        ),
        grid_words=(Word("Both", "Both ", 1000, 1500, 0.9), Word("said", "said.", 1500, 2000, 0.7)),
    )
    silent = RecordingSegment(
        "hello", 32_000, 48_000, "English", words=PartWords(missing="unavailable")
    )

    async def transcribe(_transcriber: object, recording: Recording) -> Outputs:
        asked.append(recording)
        yield said
        yield silent
        yield Whole(3.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    front = Front(align_model="models/aligner")
    answer = (await posted("model=demo&utterances=true", front=front)).json()
    (told,) = answer["results"]["channels"][0]["alternatives"]
    assert told["words"][0] == {
        "word": "both",
        "start": 1.0,
        "end": 1.4,
        "confidence": 0.9,
        "punctuated_word": "Both",
    }
    assert [one["punctuated_word"] for one in told["words"]] == ["Both", "said."]
    assert answer["results"]["utterances"][0]["words"] == told["words"]
    assert "1 segments have no times of words: unavailable" in answer["metadata"]["warnings"]
    assert [one["confidence"] for one in answer["results"]["utterances"]] == [0.8, 0.0]
    assert [(one.words, one.grid_words) for one in asked] == [(True, True)]


# ── answers ─────────────────────────────────────────────────────────────────


async def test_a_recording_becomes_a_transcript_and_its_metadata(asked: list[Recording]) -> None:
    answer = (await posted("model=demo&keyterm=Ada")).json()
    assert answer["results"] == {
        "channels": [
            {"alternatives": [{"transcript": "both said hello", "confidence": 0.0, "words": []}]}
        ]
    }
    metadata = answer["metadata"]
    assert metadata["sha256"] == hashlib.sha256(b"RIFF").hexdigest()
    assert (metadata["duration"], metadata["channels"], metadata["models"]) == (2.0, 1, ["demo"])
    (recording,) = asked
    assert (recording.context, recording.language, recording.channel) == ("Ada", None, None)
    assert metadata["request_id"] == recording.id
    assert recording.endpointing is not None


async def test_each_channel_has_a_transcript_of_its_own_if_that_is_wanted(
    asked: list[Recording],
) -> None:
    answer = (await posted("multichannel=true&utterances=true&detect_language=true")).json()
    said = [one["alternatives"][0]["transcript"] for one in answer["results"]["channels"]]
    assert said == ["channel 0 said hello", "channel 1 said hello"]
    assert [one["detected_language"] for one in answer["results"]["channels"]] == ["en", "en"]
    assert answer["metadata"]["channels"] == 2
    assert [
        (u["channel"], u["start"], u["end"], u["transcript"])
        for u in answer["results"]["utterances"]
    ] == [
        (0, 0.0, 1.0, "channel 0 said"),
        (0, 1.25, 2.0, "hello"),
        (1, 0.0, 1.0, "channel 1 said"),
        (1, 1.25, 2.0, "hello"),
    ]
    assert [recording.channel for recording in asked] == [0, 1]


async def test_what_has_no_effect_is_said(asked: list[Recording]) -> None:
    answer = (await posted("smart_format=true&summarize=v2&punctuate=false")).json()
    assert answer["metadata"]["warnings"] == [
        "smart_format has no effect",
        "summarize has no effect",
    ]
    assert len(asked) == 1


async def test_a_long_body_is_on_disk_and_whole(
    asked: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.frontend.protocols.deepgram.recordings._IN_MEMORY_BYTES", 1_000)
    body = bytes(range(256)) * 1_000
    answer = await posted(body=body, content_type="audio/wav")
    assert answer.json()["metadata"]["sha256"] == hashlib.sha256(body).hexdigest()
    assert str(asked[0].path).startswith("/proc/")


# ── refusals ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "headers", "body", "status", "said"),
    [
        ("callback=http://x", {}, b"RIFF", 400, "callback is not supported: results are the"),
        ("encoding=linear16", {}, b"RIFF", 400, "encoding is not supported: a recording has it"),
        ("interim_results=true", {}, b"RIFF", 400, "interim_results is not supported"),
        ("model=nova-9", {}, b"RIFF", 404, "the model 'nova-9' does not exist"),
        ("", {"content_type": "application/json"}, b'{"url":"http://x"}', 400, "is not fetched"),
        ("", {"content_type": "multipart/form-data; boundary=x"}, b"--x", 400, "a form is not"),
        ("", {}, b"", 400, "the body is empty; send the recording itself as the body"),
        ("", {}, b"broken", 400, "the recording is damaged"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_deepgrams_form(
    asked: list[Recording], query: str, headers: dict[str, str], body: bytes, status: int, said: str
) -> None:
    answer = await posted(query, body, **headers)
    assert answer.status_code == status
    error = answer.json()
    assert set(error) == {"err_code", "err_msg", "request_id"}
    assert said in error["err_msg"]
    assert error["request_id"].startswith("rec_")
    assert len(asked) == (body == b"broken")


async def test_a_key_is_needed_where_there_are_keys(asked: list[Recording]) -> None:
    secret, entry = new_key("acme", scopes=("recordings",))
    live, live_entry = new_key("live", scopes=("live",))
    front = Front([entry, live_entry])
    assert (await posted(front=front)).status_code == 401
    assert (await posted(front=front, authorization=f"Token {live}")).status_code == 403
    assert (await posted(front=front, authorization=f"Token {secret}")).status_code == 200
    assert [recording.tenant for recording in asked] == ["acme"]


async def test_a_recording_ends_when_its_key_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def transcribe(*_: object) -> Outputs:
        begun.set()
        await asyncio.Event().wait()
        yield DecodedSeconds(1.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    secret, entry = new_key("acme")
    front = Front([entry])
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        key = {"Authorization": f"Token {secret}"}
        sending = client.post(f"{front.url}/v1/listen", content=b"RIFF", headers=key)
        posting = asyncio.create_task(sending)
        await begun.wait()
        front.access.replace([])
        answer = await posting
    assert (answer.status_code, answer.json()["err_msg"]) == (401, "this API key was withdrawn")


async def test_a_body_that_is_too_large_is_refused_in_deepgrams_form(
    asked: list[Recording],
) -> None:
    answer = await posted(body=bytes(3_000), front=Front(max_upload_bytes=1_024))
    assert (answer.status_code, answer.json()["err_code"]) == (413, "too_large")
    assert not asked


async def test_a_full_server_says_when_to_come_again(asked: list[Recording]) -> None:
    front = Front()
    front.frontend.admission.begin_drain(0.0)
    answer = await posted(front=front)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "shutting down" in answer.json()["err_msg"]
    assert not asked


# ── options ─────────────────────────────────────────────────────────────────


def test_no_option_is_needed() -> None:
    assert parse_recording_options("") == RecordingOptions()


def test_options_are_taken() -> None:
    options = parse_recording_options(
        urlencode(
            {"model": "demo", "language": "en-US", "keywords": "quokka:2", "utterances": True}
        )
    )
    assert options == RecordingOptions(
        *("demo", "en", False, "quokka", True),
        warnings=("weights of keywords have no effect: all are context alike",),
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"multichannel": "yes"}, "it must be true or false"),
        ({"redact": "pci"}, "redact is not supported"),
        ({"vad_events": "true"}, "vad_events is not supported; supported: .*utterances"),
        ({"channels": "2"}, "channels is not supported: a recording has it in its header"),
    ],
)
def test_options_that_change_the_text_are_refused_by_name(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_recording_options(urlencode(options))
