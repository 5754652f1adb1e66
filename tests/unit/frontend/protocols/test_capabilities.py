"""Each protocol has the capabilities that it declares, under the declared names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, get_args
from urllib.parse import urlencode

import msgspec
import pytest
from openai.types.realtime import RealtimeTranslationServerEvent

from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.protocols import twilio, vapi
from auricle.frontend.protocols.assemblyai import session as assemblyai
from auricle.frontend.protocols.assemblyai.options import StreamingOptions
from auricle.frontend.protocols.assemblyai.options import parse_options as parse_streaming
from auricle.frontend.protocols.deepgram import messages as deepgram
from auricle.frontend.protocols.deepgram.flux import FluxOptions, FluxReplies, parse_flux_options
from auricle.frontend.protocols.deepgram.messages import DeepgramReplies
from auricle.frontend.protocols.deepgram.options import (
    ListenOptions,
    parse_options,
    parse_recording_options,
)
from auricle.frontend.protocols.kserve.messages import SpeechOptions, parse_request
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.riva.options import RecognitionOptions, parse_config
from auricle.frontend.protocols.riva.service import Results
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream import start as parsing
from auricle.frontend.protocols.transcriptions.form import TranscriptionForm, parse_as, parse_form
from auricle.frontend.protocols.transcriptions.translating import TranslationForm
from auricle.frontend.protocols.wyoming import Event, Transcribe, WyomingTranscript
from auricle.frontend.recordings.annotations import PartWords
from auricle.frontend.recordings.transcriber import RecordingSegment
from auricle.frontend.session.turns import Turn, TurnEvent, TurnSegment
from auricle.frontend.transport.grpc.schema import message
from auricle.protocol import stream
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial
from auricle.protocol.stream import Word
from auricle.tools.rendering.interfaces import WAYS
from auricle_testing.server import ROOT
from tests.fakes.kserve import request

pytestmark = pytest.mark.unit
ABILITIES = [field.name for field in dataclasses.fields(ProtocolCapabilities) if field.metadata]
RIVA = "nvidia.riva.asr"
PARTIAL = SegmentPartial(0, "ten", "green", 640, "English", ResumePoint())
TOKEN = {"token": "t", "from_sample": 0}
A, B = Word("a", "a ", 0, 400, 0.9), Word("b", "b", 500, 800, 0.7)
SPOKEN = TurnSegment("a b", 0.0, 1.0, "English", committed_chars=2, is_final=False, words=(A, B))


def fields_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def start(**fields: object) -> protocol.Start:
    return parsing.parse_start(json.dumps({"type": "start", "sample_rate": 16_000, **fields}))


def realtime_input(**fields: object) -> Any:
    return SessionConfig().updated({"audio": {"input": fields}}).audio.input


def transcription(**fields: object) -> Any:
    return realtime_input(transcription=fields).transcription


def form(name: str, value: str) -> TranscriptionForm:
    return parse_form([("model", "demo"), (name, value)])


def listened(**options: str) -> ListenOptions:
    asked = {"encoding": "linear16", "sample_rate": "16000", **options}
    return parse_options(urlencode(asked), 2)


def heeded(option: str, value: str) -> bool:
    """Whether an option of `/v1/listen` has an effect other than a warning."""
    options = listened(**{option: value})
    return options != listened() and not options.warnings


def flux(**options: str) -> FluxOptions:
    asked = {"encoding": "linear16", "sample_rate": "16000", **options}
    return parse_flux_options(urlencode(asked), 500)


def told_of_a_turn(event: TurnEvent) -> object:
    return FluxReplies("sess_1").turn(event, Turn(0, (SPOKEN,), 0.0, 1.0))[0]["event"]


def alternative() -> Any:
    """The alternative of a `Results` message for a text of one word."""
    told = DeepgramReplies("request", "demo").results("a", 0, 1, [A], is_final=True)
    return told["channel"]["alternatives"][0]


def flux_words() -> Any:
    return FluxReplies("sess_1").turn("updated", Turn(0, (SPOKEN,), 0.0, 1.0))[0]["words"]


def riva_final() -> Any:
    final = SegmentFinal(0, "a", 0, 1_000, "English", ResumePoint(), words=(A,))
    data = Results(None, word_offsets=True).final(final)
    response = message(f"{RIVA}.StreamingRecognizeResponse").FromString(data)
    return response.results[0].alternatives[0]


def riva_recorded() -> Any:
    segment = RecordingSegment("a", 0, 1, "English", words=PartWords((A,)), grid_words=(A,))
    data = Results(None, word_offsets=True).recording([segment])
    return message(f"{RIVA}.RecognizeResponse").FromString(data).results[0].alternatives[0]


def recognized(**fields: object) -> RecognitionOptions:
    return parse_config(message(f"{RIVA}.RecognitionConfig")(**fields), streaming=True)


def riva_partial() -> Any:
    return message(f"{RIVA}.StreamingRecognizeResponse").FromString(Results(None).partial(PARTIAL))


def streamed(**options: str) -> StreamingOptions:
    return parse_streaming(urlencode({"sample_rate": "16000", **options}), 500)


def turn() -> dict[str, Any]:
    """A turn in which the first of two words is final."""
    replies = assemblyai.AssemblyReplies("sess_1", "demo", streamed())
    return replies.turn("updated", Turn(0, (SPOKEN,), 0.0, 1.0))[0]


def inferred(name: str, value: object) -> SpeechOptions:
    return parse_request(request(sequence_id=1, sequence_start=True, **{name: value})).options


def transcribed(**data: object) -> Transcribe:
    return Event("transcribe", dict(data)).read_as(Transcribe)


def called(parameters: dict[str, str], **fields: object) -> twilio.Call:
    media = {"encoding": "audio/x-mulaw", "sampleRate": 8_000}
    begun = {"callSid": "CA1", "streamSid": "MZ1", "mediaFormat": media, **fields}
    text = json.dumps({"event": "start", "start": begun | {"customParameters": parameters}})
    begins = twilio.parse_message(text)
    assert isinstance(begins, twilio.TwilioStart)
    return twilio.Call.begun_by(begins.start)


def vapi_start(**fields: object) -> vapi.VapiStart:
    return vapi.parse_start(json.dumps({"type": "start", "sampleRate": 16_000, **fields}))


def translation_form(name: str, value: str) -> TranslationForm:
    return parse_as([("model", "demo"), (name, value)], TranslationForm)


def session_words() -> set[str]:
    """The kinds of events of a translation in OpenAI's protocol."""
    kinds = get_args(get_args(RealtimeTranslationServerEvent)[0])
    return {get_args(kind.model_fields["type"].annotation)[0] for kind in kinds}


Proof = Callable[[str], object]
PROOFS: dict[str, dict[str, Proof]] = {
    "WS /v1/audio/stream": {
        "partials": lambda word: word in fields_of(stream.Partial),
        "committed": lambda word: word in fields_of(stream.Partial),
        "turns": lambda word: stream.SpeechStopped.__struct_config__.tag == word,
        "language": lambda word: start(**{word: "en"}).language == "en",
        "keywords": lambda word: start(**{word: "Ada"}).context == "Ada",
        "words": lambda word: start(**{word: True}).words,
        "speakers": lambda word: start(**{word: True}).diarize,
        "translations": lambda word: start(**{word: ["es"]}).translate == ("es",),
        "confidence": lambda word: word in fields_of(stream.Word),
        "resume": lambda word: start(**{word: TOKEN}).resume is not None,
        "features": lambda word: start(encoding=word).encoding == word,
    },
    "WS /v1/realtime": {
        "partials": lambda word: events.partial("item", "text")["type"] == word,
        "committed": lambda word: events.delta("item", "text")["type"] == word,
        "turns": lambda word: realtime_input(**{word: {"type": "server_vad"}}).turn_detection,
        "language": lambda word: transcription(**{word: "en"}).language == "en",
        "keywords": lambda word: transcription(**{word: ["Ada"]}).context == "Ada",
        "confidence": lambda word: SessionConfig().updated({"include": [word]}).include == (word,),
    },
    "POST /v1/audio/transcriptions": {
        "committed": lambda word: form(word, "true").stream,
        "language": lambda word: form(word, "en").language == "en",
        "keywords": lambda word: form(word, "Ada").context == "Ada",
        "words": lambda word: form(word, "word").timestamp_granularities == ("word",),
        "confidence": lambda word: form(word, "logprobs").wants_logprobs,
        "speakers": lambda word: form("response_format", word).wants_speakers,
    },
    "WS /v1/realtime/translations": {
        # Sessions in test_translation_doors.py cover both.
        "committed": lambda word: word in session_words(),
        "translations": lambda word: word in session_words(),
    },
    "POST /v1/audio/translations": {
        "committed": lambda word: translation_form(word, "true").stream,
        "language": lambda word: translation_form(word, "de").language == "de",
        "keywords": lambda word: translation_form(word, "Ada").context == "Ada",
        "translations": lambda word: translation_form(word, "es").target == "es",
    },
    "WS /v1/listen": {
        "partials": lambda word: heeded(word, "true"),
        "turns": lambda word: DeepgramReplies("request", "demo").results(
            "", 0, 1, is_final=True, speech_final=True
        )[word],
        "language": lambda word: heeded(word, "en"),
        "keywords": lambda word: heeded(word, "Ada"),
        "words": lambda word: alternative()[word][0]["end"] == 0.4,
        "confidence": lambda word: alternative()[word] == alternative()["words"][0][word] == 0.9,
        "speakers": lambda word: heeded(word, "true"),
        "channels": lambda word: not listened(channels="2", **{word: "true"}).warnings,
    },
    "WS /v2/listen": {
        "partials": lambda word: told_of_a_turn("updated") == word,
        "turns": lambda word: told_of_a_turn("ended") == word,
        "keywords": lambda word: flux(**{word: "Ada"}).context == "Ada",
        "confidence": lambda word: flux_words()[0][word] == 0.9,
    },
    "POST /v1/listen": {
        "language": lambda word: parse_recording_options(f"{word}=en").language == "en",
        "keywords": lambda word: parse_recording_options(f"{word}=Ada").context == "Ada",
        "words": lambda word: deepgram.alternative("a", [A])[word],
        "confidence": lambda word: deepgram.alternative("a", (), 0.8)[word] == 0.8,
        "speakers": lambda word: parse_recording_options(f"{word}=true").diarize,
        "channels": lambda word: parse_recording_options(f"{word}=true").multichannel,
    },
    "StreamingRecognize": {
        "partials": lambda word: message(f"{RIVA}.StreamingRecognitionConfig")(**{word: True}),
        "committed": lambda word: getattr(riva_partial().results[0], word) > 0.5,
        "turns": lambda word: recognized(**{word: {"stop_history": 700}}).silence_ms == 700,
        "language": lambda word: recognized(**{word: "en-US"}).language == "en",
        "keywords": lambda word: recognized(**{word: [{"phrases": ["Ada"]}]}).context == "Ada",
        "words": lambda word: recognized(**{word: True}).word_offsets and riva_final().words,
        "confidence": lambda word: round(getattr(riva_final(), word), 3) == 0.9,
        "speakers": lambda word: recognized(diarization_config={word: True}).diarize,
    },
    "Recognize": {
        "language": lambda word: recognized(**{word: "en-US"}).language == "en",
        "keywords": lambda word: recognized(**{word: [{"phrases": ["Ada"]}]}).context == "Ada",
        "words": lambda word: recognized(**{word: True}).word_offsets and riva_recorded().words,
        "confidence": lambda word: round(getattr(riva_recorded(), word), 3) == 0.9,
    },
    "WS /v3/ws": {
        "partials": lambda word: turn()[word] == "a b",
        "committed": lambda word: [w[word] for w in turn()["words"]] == [True, False],
        "turns": lambda word: turn()[word] is False,
        "language": lambda word: streamed(**{word: "en"}).language == "en",
        "keywords": lambda word: streamed(**{word: '["Ada"]'}).context == "Ada",
        "words": lambda word: [w["end"] for w in turn()[word]] == [400, 800],
        "confidence": lambda word: [w[word] for w in turn()["words"]] == [0.9, 0.7],
        "speakers": lambda word: streamed(**{word: "true"}).diarize,
    },
    "ModelStreamInfer": {
        "partials": lambda word: not inferred(word, False).partials,
        "language": lambda word: inferred(word, "en").language == "en",
        "keywords": lambda word: inferred(word, "Ada").context == "Ada",
    },
    "ModelInfer": {
        "language": lambda word: inferred(word, "en").language == "en",
        "keywords": lambda word: inferred(word, "Ada").context == "Ada",
    },
    "Wyoming": {
        "committed": lambda word: (
            f'"type":"{word}"'.encode() in WyomingTranscript().on_text(PARTIAL)
        ),
        "language": lambda word: transcribed(**{word: "en"}).language == "en",
        "keywords": lambda word: transcribed(**{word: ["Ada"]}).transcript_terms == ("Ada",),
    },
    "WS /v1/twilio": {
        "language": lambda word: called({word: "en"}).language == "en",
        "keywords": lambda word: called({word: "Ada"}).context == "Ada",
        "channels": lambda word: len(called({}, **{word: ["inbound", "outbound"]}).tracks) == 2,
    },
    "WS /v1/vapi": {
        "partials": lambda word: json.loads(vapi.response(PARTIAL, "customer"))[word] == "partial",
        "language": lambda word: vapi.parse_options(f"{word}=en").language == "en",
        "keywords": lambda word: vapi.parse_options(f"{word}=Ada").context == "Ada",
        "channels": lambda word: vapi_start(**{word: 1}).channels == 1,
    },
}
DECLARED = [
    (way.route, ability, word)
    for way in WAYS
    for ability in ABILITIES
    if (word := getattr(way, ability))
]


@pytest.mark.parametrize(("way", "ability", "word"), DECLARED)
def test_what_is_declared_is_there_under_that_name(way: str, ability: str, word: str) -> None:
    assert PROOFS[way][ability](word)


def test_every_way_is_declared_once_and_has_a_page_with_its_words() -> None:
    assert len({way.route for way in WAYS}) == len(WAYS)
    for way in WAYS:
        page = (ROOT / "docs" / way.page).read_text()
        assert way.route in page
        for ability in ABILITIES:
            assert getattr(way, ability).rsplit(".", 1)[-1] in page


def test_the_readme_leads_to_the_page_of_every_way() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = {way.page for way in WAYS}
    assert all(f"docs/{page}" in readme for page in pages)
