"""Translations in each protocol's format: requests, results, and errors without a translator."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import numpy as np
import openai
import pytest
import websockets
from openai._models import construct_type
from openai.types.realtime import RealtimeTranslationServerEvent

from auricle.client.display import TranscriptFormatter
from auricle.client.events import typed
from auricle.core.errors import ProtocolError
from auricle.frontend.exporters.transcripts import TranscriptSource
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.protocols.realtime.translations import RunningText, translations_protocol
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream import session as replies
from auricle.frontend.protocols.stream.start import parse_start
from auricle.frontend.recordings.annotations import Translated, translated
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.protocol.annotation import SegmentTranslation
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial, SessionEvent
from auricle.protocol.stream import Translation as ClientTranslation
from auricle_testing.checkpoints.whisper import random_whisper
from tests.fakes.front import Front
from tests.fakes.place import HeldPlace
from tests.fakes.tcp_port import frontend
from tests.fakes.transcript_bus import KeptBus

pytestmark = pytest.mark.unit
MODEL: dict[str, Any] = {"translate_model": "models/translator"}
RECORDING = ("x.wav", b"RIFF")


def final(segment: int, text: str, language: str = "English") -> SegmentFinal:
    return SegmentFinal(
        segment, text, segment * 1000, segment * 1000 + 900, language, ResumePoint()
    )


def last(segment: int, text: str, missing: str = "") -> SegmentTranslation:
    return SegmentTranslation(segment, "es", text, final=True, missing=missing)


async def test_a_deployment_without_a_translator_refuses_sessions() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        url = front.url.replace("http", "ws") + "/v1/audio/stream"
        async with websockets.connect(url) as socket:
            start = {"type": "start", "sample_rate": 16_000, "translate": ["es"]}
            await socket.send(json.dumps(start))
            told = json.loads(await socket.recv())
    assert (told["type"], told["code"], told["param"]) == (
        *("error", "unsupported_value", "translate"),
    )
    assert "translate_model" in told["message"]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"translate": ["Spanish"]}, "translate", "'Spanish' is not an ISO 639-1 code"),
        ({"translate": ["es", "es\n"]}, "translate", "is not an ISO 639-1 code"),
        ({"translate": ["es", "es"]}, "translate", "twice"),
        ({"translate": ["es", "de", "fr", "it", "pt"]}, "translate", "at most 4"),
        ({"translate": ["es"], "terms": {"de": {"a": "b"}}}, "terms", "nothing is translated"),
        ({"translate": ["es"], "terms": {"es": {"a": " "}}}, "terms", "empty term"),
        ({"translate": ["es"], "terms": {"es": {"a": "x" * 101}}}, "terms", "101 characters"),
    ],
)
def test_what_is_wrong_with_a_start_is_named(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=said) as refused:
        parse_start(json.dumps({"type": "start", "sample_rate": 16_000, **fields}))
    assert refused.value.param == param


def test_translations_are_told_as_the_client_reads_them() -> None:
    told = protocol.encode(replies.translation_reply(SegmentTranslation(3, "es", "una", " casa")))
    assert json.loads(told) == {
        **{"type": "translation", "segment": 3, "language": "es"},
        **{"committed": "una", "partial": " casa", "final": False},
    }
    assert typed(json.loads(told)) == ClientTranslation(3, "es", "una", " casa", False)
    missing = SegmentTranslation(3, "es", "una", final=True, missing="unavailable")
    told = protocol.encode(replies.translation_reply(missing))
    assert typed(json.loads(told)) == ClientTranslation(3, "es", "una", "", True, "unavailable")


# ── recordings ──────────────────────────────────────────────────────────────


class Transcriber:
    """Returns these segments for any recording."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Recording] = []
        self.translations = [Translated("Una barca."), Translated("Navega.")]
        where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
        monkeypatch.setattr(where, lambda _self, recording: self._transcribe(recording))

    async def _transcribe(
        self, recording: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        self.asked.append(recording)
        for at, (text, told) in enumerate(
            zip(("A boat.", "It sails."), self.translations, strict=True)
        ):
            yield RecordingSegment(
                text, at * 16_000, (at + 1) * 16_000, "English", translation=told
            )
        yield Whole(2.0)


@pytest.fixture
def transcriber(monkeypatch: pytest.MonkeyPatch) -> Transcriber:
    return Transcriber(monkeypatch)


def official(front: Front) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="any", max_retries=0)


async def test_the_official_client_has_recordings_translated(transcriber: Transcriber) -> None:
    front = Front(**MODEL)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.create
        plain = await create(file=RECORDING, model="demo")
        verbose: Any = await create(
            file=RECORDING,
            model="demo",
            response_format="verbose_json",
            extra_body={"to_language": "Spanish"},
        )
        srt: Any = await create(file=RECORDING, model="demo", response_format="srt")
    assert plain.text == "Una barca. Navega."
    assert [recording.translate for recording in transcriber.asked] == ["en", "es", "en"]
    assert (verbose.task, verbose.language) == ("translate", "spanish")
    assert [segment.text for segment in verbose.segments] == ["Una barca.", "Navega."]
    assert "00:00:01,000 --> 00:00:02,000\nNavega.\n" in srt


async def test_what_is_cut_off_is_a_warning(transcriber: Transcriber) -> None:
    transcriber.translations[1] = Translated("Nave", "length")
    front = Front(**MODEL)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.with_raw_response.create
        answer = await create(file=RECORDING, model="demo")
    assert answer.headers["Auricle-Warnings"] == "1 segments are translated in part: length"


@pytest.mark.parametrize(
    ("missing", "status", "said"),
    [
        ("unsupported_value", 400, "does not translate English"),
        ("unavailable", 503, ""),
        ("overloaded", 503, ""),
        ("starting", 503, ""),
        ("deadline", 504, "at 1.0 s was not translated (deadline)"),
    ],
)
async def test_a_recording_without_its_translation_fails_with_the_reason(
    transcriber: Transcriber, missing: str, status: int, said: str
) -> None:
    transcriber.translations[1] = Translated("", missing)
    front = Front(**MODEL)
    async with asyncio.timeout(60), front.serving():
        with pytest.raises(openai.APIStatusError) as failed:
            await official(front).audio.translations.create(file=RECORDING, model="demo")
    assert failed.value.status_code == status
    assert said in failed.value.message


@pytest.mark.parametrize(
    ("settings", "fields", "param"),
    [
        ({}, {}, "to_language"),
        (MODEL, {"to_language": "k9"}, "to_language"),
        (MODEL, {"include[]": "logprobs"}, "include"),
        (MODEL, {"response_format": "diarized_json"}, "response_format"),
        (MODEL, {"timestamp_granularities[]": "word"}, "timestamp_granularities"),
        (MODEL, {"max_line_characters": 40}, "max_line_characters"),
        (MODEL, {"to_tongue": "es"}, "to_tongue"),
    ],
)
async def test_a_request_that_cannot_be_served_names_the_field(
    transcriber: Transcriber, settings: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    front = Front(**settings)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.create
        with pytest.raises(openai.BadRequestError) as refused:
            await create(file=RECORDING, model="demo", extra_body=fields)
    assert refused.value.param == param
    assert not transcriber.asked


# ── by the speech model ─────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whisper") / "demo"
    random_whisper(path)
    return path


async def test_a_recordings_text_is_the_models_own_english(
    transcriber: Transcriber, whisper: Path
) -> None:
    front = Front(model=whisper)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.create
        told: Any = await create(file=RECORDING, model="demo", response_format="verbose_json")
        listed = (await front.get("/v1/models")).json()["data"][0]["capabilities"]
    assert (told.task, told.language, told.text) == ("translate", "english", "A boat. It sails.")
    (asked,) = transcriber.asked
    assert asked.to_english and asked.translate is None
    assert (listed["translate"], listed["languages"]) == (["en"], ["en", "de"])


@pytest.mark.parametrize("targets", [(), ("es", "en")])
async def test_a_pool_that_knows_english_comes_first(
    transcriber: Transcriber, whisper: Path, targets: tuple[str, ...]
) -> None:
    front = Front(model=whisper, translate_targets=targets, **MODEL)
    async with asyncio.timeout(60), front.serving():
        await official(front).audio.translations.create(file=RECORDING, model="demo")
    assert [(one.to_english, one.translate) for one in transcriber.asked] == [(False, "en")]


async def test_a_pool_that_does_not_know_english_leaves_it_to_the_model(
    transcriber: Transcriber, whisper: Path
) -> None:
    front = Front(model=whisper, translate_targets=("es",), **MODEL)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.create
        await create(file=RECORDING, model="demo")
        await create(file=RECORDING, model="demo", extra_body={"to_language": "es"})
    assert [(one.to_english, one.translate) for one in transcriber.asked] == [
        *((True, None), (False, "es")),
    ]


async def test_another_language_than_english_is_refused(
    transcriber: Transcriber, whisper: Path
) -> None:
    front = Front(model=whisper)
    async with asyncio.timeout(60), front.serving():
        create = official(front).audio.translations.create
        with pytest.raises(openai.BadRequestError, match="into en only") as refused:
            await create(file=RECORDING, model="demo", extra_body={"to_language": "es"})
    assert refused.value.param == "to_language"
    assert not transcriber.asked


def test_segments_of_a_part_are_joined_and_what_is_in_the_target_language_is_its_own() -> None:
    finals = [final(0, "A boat."), final(1, "Una casa.", "Spanish"), final(2, "It sails.")]
    told = {0: last(0, "Una barca."), 1: last(1, "", "same_language"), 2: last(2, "Navega.")}
    assert translated(finals, told) == Translated("Una barca. Una casa. Navega.")
    told[2] = last(2, "Na", "unavailable")
    assert translated(finals, told) == Translated("Una barca. Una casa. Na", "unavailable")
    assert translated(finals, {}) == Translated()


# ── live, as OpenAI has it ──────────────────────────────────────────────────

LOUD, QUIET = (np.full(24_000, level, "<i2").tobytes() for level in (8_000, 0))


def append(pcm: bytes) -> str:
    audio = base64.b64encode(pcm).decode()
    return json.dumps({"type": "session.input_audio_buffer.append", "audio": audio})


def update(**audio: Any) -> str:
    return json.dumps({"type": "session.update", "session": {"audio": audio}})


CLOSE = json.dumps({"type": "session.close"})
HEARD = update(input={"transcription": {"model": "demo"}}, output={"language": "es"})


class Socket(HeldPlace):
    """A client's connection: it sends these messages and then stays open."""

    session, trace = "sess_1", ""

    def __init__(self, *messages: str) -> None:
        super().__init__()
        self.client = ClientAccount(ANYONE)
        self.sent: list[Any] = []
        self.went_at: int | None = None
        self._messages = list(messages)

    async def receive(self, seconds: float, what: str) -> tuple[str | None, bytes]:
        for _ in range(50):  # all messages in flight arrive
            await asyncio.sleep(0)
        if not self._messages:
            raise ClientDisconnected
        return self._messages.pop(0), b""

    async def charge(self, seconds: float) -> None:
        """Count nothing."""

    def end_early(self, samples: int) -> None:
        self.went_at = samples

    async def send(self, text: str) -> None:
        kind: Any = RealtimeTranslationServerEvent
        self.sent.append(construct_type(type_=kind, value=json.loads(text)))

    def deltas(self, which: str) -> list[str]:
        return [e.delta for e in self.sent if e.type == f"session.{which}_transcript.delta"]


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reason of each missing translation; the other segments have translations in capitals."""
    usual, codes = ProcessorLink.events, list[str]()

    async def events(link: ProcessorLink) -> AsyncGenerator[SessionEvent, None]:
        async for event in usual(link):
            if isinstance(event, SegmentPartial):
                continue  # the fake processor revokes them
            yield event
            if isinstance(event, SegmentFinal) and event.text:
                code = codes.pop(0) if codes else ""
                text = "" if code else f"{event.text.upper()}."
                yield last(event.segment, text, code)

    monkeypatch.setattr(ProcessorLink, "events", events)
    return codes


async def served(*messages: str, **settings: Any) -> Socket:
    socket = Socket(*messages)
    front = frontend(settings.pop("bus", None), **(MODEL | settings))
    async with asyncio.timeout(120):
        await translations_protocol(front).serve(cast(Any, socket))
    return socket


async def test_a_session_is_told_its_text_and_the_translation(missing: list[str]) -> None:
    socket = await served(HEARD, *map(append, (LOUD, QUIET, LOUD, QUIET)), CLOSE)
    kinds = [event.type for event in socket.sent]
    assert (kinds[:2], kinds[-1]) == (["session.created", "session.updated"], "session.closed")
    assert socket.deltas("input") == ["word", " word"]
    assert socket.deltas("output") == ["WORD.", " WORD."]
    created, updated = (event.session for event in socket.sent[:2])
    assert (created.id, created.type, created.model) == ("sess_1", "translation", "demo")
    assert (created.audio.output.language, created.audio.input.transcription) == ("en", None)
    assert (updated.audio.output.language, updated.audio.input.transcription.model) == (
        *("es", "demo"),
    )


async def test_text_is_told_only_if_it_is_wanted(missing: list[str]) -> None:
    socket = await served(append(LOUD), append(QUIET), CLOSE)
    assert not socket.deltas("input") and socket.deltas("output") == ["WORD."]


async def test_what_is_missing_is_named_and_text_in_the_target_language_is_its_own(
    missing: list[str],
) -> None:
    missing += ["unavailable", "same_language"]
    socket = await served(*map(append, (LOUD, QUIET, LOUD, QUIET)), CLOSE)
    (error,) = [event.error for event in socket.sent if event.type == "error"]
    assert (error.code, "is not translated: unavailable" in error.message) == ("unavailable", True)
    assert socket.deltas("output") == ["word"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{", "not an event that is supported"),
        (json.dumps({"type": "response.create"}), "not an event that is supported"),
        (update(output={"language": "Klingonese"}), "is not an ISO 639-1 code"),
        (update(output={"voice": "x"}), "voice"),
        (update(input={"format": {}}), "format"),
    ],
)
async def test_a_wrong_event_is_named_and_the_session_goes_on(
    missing: list[str], message: str, said: str
) -> None:
    socket = await served(message, append(LOUD), append(QUIET), CLOSE)
    (error,) = [event.error for event in socket.sent if event.type == "error"]
    assert said in error.message
    assert socket.deltas("output") == ["WORD."]


async def test_the_language_is_fixed_once_audio_has_come(missing: list[str]) -> None:
    other = update(output={"language": "de"})
    socket = await served(HEARD, append(LOUD), other, append(QUIET), CLOSE)
    (error,) = [event.error for event in socket.sent if event.type == "error"]
    assert error.param == "session.audio.output.language"
    assert socket.deltas("output") == ["WORD."]


async def test_a_session_without_audio_is_closed() -> None:
    assert [event.type for event in (await served(CLOSE)).sent] == [
        *("session.created", "session.closed"),
    ]


def test_segments_are_told_in_order_whatever_is_known_first() -> None:
    text = RunningText()
    assert text.grown(1, "dos", ended=True) == ""
    assert text.grown(0, "uno", ended=False) == "uno"
    assert text.grown(0, "uno y", ended=False) == " y"
    assert text.grown(0, "uno y", ended=True) == " dos"
    assert text.grown(0, "again", ended=True) == ""
    assert text.grown(2, "", ended=True) == ""
    assert text.grown(3, "本", ended=True) == "本"
    assert text.grown(4, "tres", ended=True) == "tres"


async def test_what_the_speech_model_cannot_do_is_refused_when_it_is_asked_for(
    missing: list[str], whisper: Path
) -> None:
    other, loud = update(output={"language": "de"}), (append(LOUD), append(QUIET), CLOSE)
    socket = await served(other, *loud, model=whisper, translate_model=None)
    (error,) = [event.error for event in socket.sent if event.type == "error"]
    assert (error.param, "into en only" in error.message) == (
        *("session.audio.output.language", True),
    )
    assert socket.deltas("output") == ["WORD."]  # in English, as before


# ── elsewhere ───────────────────────────────────────────────────────────────


def test_the_bus_has_translations() -> None:
    bus = KeptBus()
    listener = bus.listener(TranscriptSource("t", "s"))
    for text in ("", "una", "una", "una casa"):
        listener.on_event(SegmentTranslation(0, "es", text))
    listener.on_event(last(0, "una casa", "length"))
    assert [(one.type, one.text, one.missing) for one in bus.messages] == [
        *(("translated", "una", ""), ("translated", "una casa", "")),
        ("translation", "una casa", "length"),
    ]


def test_the_command_shows_text_or_its_translation() -> None:
    warned: list[str] = []
    spoken = TranscriptFormatter(None, warned.append)
    other = TranscriptFormatter("es", warned.append)
    heard: list[Any] = [
        {"type": "final", "segment": 0, "text": "A boat.", "start_ms": 0, "end_ms": 900},
        {"type": "final", "segment": 1, "text": "Una.", "start_ms": 1000, "end_ms": 1900},
        {"type": "final", "segment": 2, "text": "It.", "start_ms": 2000, "end_ms": 2900},
    ]
    for event in heard:
        for shown in (spoken, other):
            found = typed(event | {"language": "English"})
            assert found is not None
            shown.add(found)
    for segment, text, why in ((0, "Una barca.", None), (1, "", "same_language"), (2, "", "late")):
        other.add(ClientTranslation(segment, "es", text, "", True, why))
    assert other.text("txt") == "Una barca. Una."
    assert other.text("srt") == (
        "1\n00:00:00,000 --> 00:00:00,900\nUna barca.\n\n2\n00:00:01,000 --> 00:00:01,900\nUna.\n"
    )
    assert spoken.text("vtt").startswith("WEBVTT\n\n00:00:00.000 --> 00:00:00.900\nA boat.\n")
    assert warned == ["the text at 2.0 s is not translated: late"]
