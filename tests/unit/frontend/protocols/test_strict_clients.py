"""Answers and events satisfy the types of the official clients, which are checked strictly here.

The clients themselves check nothing; clients in typed languages do.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from assemblyai.streaming import v3 as assemblyai
from assemblyai.streaming.v3.models import ErrorEvent
from deepgram.listen.v1 import types as listen_v1
from deepgram.listen.v2 import types as listen_v2
from deepgram.types import ListenV1Response
from openai.types.audio import (
    Transcription,
    TranscriptionDiarized,
    TranscriptionVerbose,
    TranslationVerbose,
)
from openai.types.audio.transcription_stream_event import TranscriptionStreamEvent
from openai.types.realtime import (
    ConversationItemInputAudioTranscriptionCompletedEvent,
    RealtimeErrorEvent,
    RealtimeServerEvent,
)
from pydantic import TypeAdapter, ValidationError

from auricle.core.errors import UnsupportedValue
from auricle.frontend.protocols.assemblyai.options import parse_options
from auricle.frontend.protocols.assemblyai.session import AssemblyReplies
from auricle.frontend.protocols.assemblyai.session import error_message as assemblyai_error
from auricle.frontend.protocols.deepgram.flux import FluxReplies, Thresholds, fatal
from auricle.frontend.protocols.deepgram.messages import DeepgramReplies
from auricle.frontend.protocols.deepgram.messages import error_message as deepgram_error
from auricle.frontend.protocols.deepgram.options import RecordingOptions
from auricle.frontend.protocols.deepgram.recordings import RecordingChannel, answer
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.transcriptions import formats
from auricle.frontend.recordings.transcriber import RecordingSegment, Whole
from auricle.frontend.session.turns import Turn, TurnSegment
from auricle.frontend.session.websocket_session import Summary
from auricle.protocol.sessions import ScoredToken
from auricle.protocol.stream import Usage, Word
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
TOKENS = (ScoredToken("é".encode()[:1], -0.5, 5), ScoredToken("é".encode()[1:], -0.25, 6))
USED = Usage(prompt_tokens=40, output_tokens=3)
SPOKEN = [
    RecordingSegment("é", 0, 16_000, "English", TOKENS, speech=0.9, usage=USED),
    RecordingSegment("", 16_000, 32_000, "", usage=USED),
]


def strict(kind: Any, data: str | bytes | dict[str, Any]) -> Any:
    """Parse JSON as `kind`, without any conversion of types."""
    text = json.dumps(data) if isinstance(data, dict) else data
    return TypeAdapter(kind).validate_json(text, strict=True)


@pytest.fixture(params=[SPOKEN, []], ids=["speech", "silence"])
def _said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    async def transcribe(*_: object) -> AsyncGenerator[RecordingSegment | Whole, None]:
        for segment in request.param:
            yield segment
        yield Whole(2.0)

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)


@pytest.mark.usefixtures("_said")
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, Transcription),
        ({"include[]": "logprobs", "temperature": "0.5"}, Transcription),
        ({"response_format": "verbose_json"}, TranscriptionVerbose),
        ({"response_format": "verbose_json"}, TranslationVerbose),
    ],
)
async def test_an_answer_is_of_its_type(fields: dict[str, str], kind: type) -> None:
    front = Front()
    async with front.serving():
        answer = await front.post(**fields)
    assert answer.status_code == 200
    made = strict(kind, answer.content)
    if isinstance(made, TranscriptionVerbose):
        assert {"task", "language", "duration", "text", "segments"} <= made.model_fields_set


@pytest.mark.parametrize("segments", [SPOKEN[:1], []])
def test_diarized_text_is_of_its_type(segments: list[RecordingSegment]) -> None:
    strict(TranscriptionDiarized, formats.as_diarized_json(formats.TimedTranscript(segments, 2.0)))


@pytest.mark.usefixtures("_said")
@pytest.mark.parametrize("fields", [{}, {"include[]": "logprobs"}])
async def test_a_streams_events_are_of_their_types(fields: dict[str, str]) -> None:
    front = Front()
    async with front.serving():
        answer = await front.post(stream="true", **fields)
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    found = [strict(TranscriptionStreamEvent, line) for line in lines]
    assert [event.type for event in found][-1] == "transcript.text.done"


@pytest.mark.parametrize(
    ("event", "code", "param"),
    [
        ({"type": "session.update", "session": {"x": "y"}}, "unknown_parameter", "session.x"),
        ({"type": "session.update", "session": {"type": "x"}}, "invalid_value", "session.type"),
        ({"type": "session.update"}, "invalid_event", None),
        ({"type": "response.create"}, "invalid_event", None),
        (
            {
                "type": "session.update",
                "session": {"audio": {"input": {"transcription": {"model": "x"}}}},
            },
            "model_not_found",
            None,
        ),
    ],
)
async def test_an_error_has_openais_code_and_the_id_of_its_event(
    event: dict[str, Any], code: str, param: str | None
) -> None:
    front = Front()
    async with front.serving(), front.connect("/v1/realtime") as connection:
        await connection.recv()
        await connection.send(json.dumps(event | {"event_id": "mine"}))
        told = strict(RealtimeErrorEvent, await connection.recv()).error
        await connection.send("{")
        assert strict(RealtimeErrorEvent, await connection.recv()).error.event_id is None
    assert (told.code, told.param, told.event_id) == (code, param, "mine")


REFUSED = UnsupportedValue("no", "session.type")


@pytest.mark.parametrize(
    "event",
    [
        events.delta("item_1", "é"),
        events.segment("item_1", 0, "é", 0, 1_000),
        events.completed("item_1", "", 0.0),
        events.completed("item_1", "é", 1.5, TOKENS),
        events.failed("item_1", REFUSED),
        events.error_event(REFUSED),
        events.error_event(REFUSED, "mine"),
        events.error_event(events.empty_commit("no turn is open"), "mine"),
        events.server_event("input_audio_buffer.cleared"),
        events.server_event(
            "input_audio_buffer.committed", item_id="item_1", previous_item_id=None
        ),
        events.server_event(
            "input_audio_buffer.speech_started", item_id="item_1", audio_start_ms=20
        ),
        events.server_event("input_audio_buffer.speech_stopped", item_id="item_1", audio_end_ms=20),
    ],
    ids=lambda event: event["type"],
)
def test_a_realtime_event_is_of_its_type(event: dict[str, Any]) -> None:
    made = strict(RealtimeServerEvent, events.encode(event))
    assert made.type == event["type"]
    assert not made.model_extra
    if isinstance(made, ConversationItemInputAudioTranscriptionCompletedEvent):
        assert made.usage.type == "duration"
    if isinstance(made, RealtimeErrorEvent):
        assert made.error.type == "invalid_request_error"


@pytest.mark.parametrize(
    "audio",
    [
        {},
        {"format": {"type": "audio/pcmu"}, "noise_reduction": {"type": "near_field"}},
        {"turn_detection": None},
        {"turn_detection": {"threshold": 0.9, "silence_duration_ms": 500}},
        {"transcription": {"language": "en", "prompt": "Ada", "delay": "low"}},
        {"transcription": {"languages": ["en"], "keywords": ["Ada"], "model": "demo"}},
    ],
)
async def test_a_realtime_session_is_of_its_type(audio: dict[str, Any]) -> None:
    front = Front()
    update = {"type": "session.update", "session": {"audio": {"input": audio}}}
    async with front.serving(), front.connect("/v1/realtime") as connection:
        created = strict(RealtimeServerEvent, await connection.recv())
        await connection.send(json.dumps(update))
        updated = strict(RealtimeServerEvent, await connection.recv())
    assert (created.type, updated.type) == ("session.created", "session.updated")
    assert (created.session.type, updated.session.type) == ("transcription", "transcription")


def strict_but_times(kind: Any, data: dict[str, Any]) -> Any:
    """Parse JSON as `kind`, whose times are text or numbers, as JSON has no others."""
    try:
        return strict(kind, data)
    except ValidationError as error:
        assert {one["type"] for one in error.errors()} == {"datetime_type"}
        return TypeAdapter(kind).validate_json(json.dumps(data))


WORD = Word("hello", " hello", 100, 400, 0.5)
HEARD = RecordingSegment("hello", 0, 16_000, "English", speech=0.9, grid_words=(WORD,))
NOW = datetime(2026, 1, 2, tzinfo=UTC)
DEEPGRAM = DeepgramReplies("request", "demo")
FLUX = FluxReplies("request")
SEGMENTS = [TurnSegment("hello", 0.0, 1.0, "English", words=(WORD,))]
SEGMENTS += [replace(SEGMENTS[0], words=()), replace(SEGMENTS[0], text="", words=())]
TURNS = [Turn(0, (one,), 0.0, 1.0) for one in SEGMENTS] + [Turn(1, (), 0.0, 1.0)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (DEEPGRAM.results("", 0.0, 1.0, is_final=False), listen_v1.ListenV1Results),
        (DEEPGRAM.results("hello", 0.0, 1.0, [WORD], is_final=True), listen_v1.ListenV1Results),
        (
            DEEPGRAM.results("hello", 0.0, 1.0, [WORD], [2], is_final=True),
            listen_v1.ListenV1Results,
        ),
        (DEEPGRAM.metadata(0.0, "00", NOW, ()), listen_v1.ListenV1Metadata),
        (DEEPGRAM.configure_failure(), listen_v1.ListenV1ConfigureFailure),
        (DEEPGRAM.speech_started(0), listen_v1.ListenV1SpeechStarted),
        (DEEPGRAM.utterance_end(16_000), listen_v1.ListenV1UtteranceEnd),
        (deepgram_error(REFUSED), listen_v1.ListenV1Error),
        (FLUX.connected(), listen_v2.ListenV2Connected),
        (FLUX.warning("no effect"), listen_v2.ListenV2Warning),
        (FLUX.configured(Thresholds(), ""), listen_v2.ListenV2ConfigureSuccess),
        (FLUX.configured(Thresholds(eager=0.4), "Ada, B"), listen_v2.ListenV2ConfigureSuccess),
        (FLUX.not_configured(REFUSED), listen_v2.ListenV2ConfigureFailure),
        (fatal(REFUSED, 3), listen_v2.ListenV2FatalError),
        *((FLUX.turn("updated", turn)[0], listen_v2.ListenV2TurnInfo) for turn in TURNS),
        (FLUX.turn("ended", TURNS[0], 0.9, "silence")[0], listen_v2.ListenV2TurnInfo),
    ],
)
def test_a_live_message_is_of_deepgrams_type(message: dict[str, Any], kind: type) -> None:
    assert strict(kind, message).type == message["type"]


@pytest.mark.parametrize("segments", [[HEARD], SPOKEN, []], ids=["words", "no words", "silence"])
@pytest.mark.parametrize(
    "options", [RecordingOptions(), RecordingOptions(utterances=True, says_language=True)]
)
def test_a_recordings_answer_is_of_deepgrams_type(
    segments: list[RecordingSegment], options: RecordingOptions
) -> None:
    channel = RecordingChannel(segments, Whole(2.0))
    told = answer("request", "demo", "00", NOW, [channel], options)
    (made,) = strict_but_times(ListenV1Response, told).results.channels
    assert made.alternatives[0].transcript == " ".join(segment.text for segment in segments)


ASSEMBLYAI = AssemblyReplies("session", "demo", parse_options("sample_rate=16000", 500))
BY_SPEAKER = AssemblyReplies(
    "session", "demo", parse_options("sample_rate=16000&speaker_labels=true", 500)
)
DIALOGUE = Turn(0, (replace(SEGMENTS[0], speakers=(2,)),), 0.0, 1.0)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (ASSEMBLYAI.begin(), assemblyai.BeginEvent),
        *(
            (one, assemblyai.TurnEvent)
            for turn in TURNS
            for one in ASSEMBLYAI.turn("updated", turn)
        ),
        (ASSEMBLYAI.turn("started", TURNS[0])[0], assemblyai.SpeechStartedEvent),
        (ASSEMBLYAI.turn("ended", TURNS[0], 0.9)[0], assemblyai.TurnEvent),
        (BY_SPEAKER.turn("ended", DIALOGUE, 0.9)[0], assemblyai.TurnEvent),
        (BY_SPEAKER.turn("updated", TURNS[0])[0], assemblyai.TurnEvent),
        (ASSEMBLYAI.not_changed(REFUSED), assemblyai.WarningEvent),
        (
            ASSEMBLYAI.termination(Summary(1.0, "00", NOW, left=False, failed=False), 1.2),
            assemblyai.TerminationEvent,
        ),
        (assemblyai_error(REFUSED), ErrorEvent),
    ],
)
def test_a_message_is_of_assemblyais_type(message: dict[str, Any], kind: type) -> None:
    strict_but_times(kind, message)
