"""What a way in declares that it can do, its code does, under the name that it declares."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from auricle.frontend.assemblyai import messages as assemblyai
from auricle.frontend.assemblyai.options import StreamingOptions
from auricle.frontend.assemblyai.options import parse_options as parse_streaming
from auricle.frontend.deepgram.messages import Replies
from auricle.frontend.deepgram.options import ListenOptions, parse_options
from auricle.frontend.dialects.turns import Spoken, Turn
from auricle.frontend.doors.capabilities import Capabilities
from auricle.frontend.kserve.asking import SpeechOptions, asked_by
from auricle.frontend.realtime import events
from auricle.frontend.realtime.config import SessionConfig
from auricle.frontend.stream import protocol
from auricle.frontend.transcriptions.form import TranscriptionForm, parse_form
from auricle.rendering.ways import WAYS
from tests.server import ROOT
from tests.unit.kserve import request

pytestmark = pytest.mark.unit
ABILITIES = [field.name for field in dataclasses.fields(Capabilities) if field.metadata]


def start(**fields: object) -> protocol.Start:
    return protocol.parse_start(json.dumps({"type": "start", "sample_rate": 16_000, **fields}))


def fields_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def listened(**options: str) -> ListenOptions:
    asked = {"encoding": "linear16", "sample_rate": "16000", **options}
    return parse_options(urlencode(asked), 2)


def heeded(option: str, value: str) -> bool:
    """Whether an option of `/v1/listen` has an effect, and not only a warning."""
    options = listened(**{option: value})
    return options != listened() and not options.warnings


def streamed(**options: str) -> StreamingOptions:
    return parse_streaming(urlencode({"sample_rate": "16000", **options}), 500)


def turn() -> dict[str, Any]:
    """A turn in which the first of two words will not change."""
    spoken = Spoken("a b", 0.0, 1.0, "English", settled=2, is_final=False)
    replies = assemblyai.Replies("sess_1", "demo", streamed())
    return replies.turn("Update", Turn(0, (spoken,), 0.0, 1.0))[0]


def inferred(name: str, value: object) -> SpeechOptions:
    return asked_by(request(sequence_id=1, sequence_start=True, **{name: value})).options


def realtime_input(**fields: object) -> SessionConfig:
    return SessionConfig().updated({"audio": {"input": fields}})


def form(name: str, value: str) -> TranscriptionForm:
    return parse_form([("model", "demo"), (name, value)])


TOKEN = {"token": "t", "from_sample": 0}
PROOFS: dict[tuple[str, str], Callable[[str], object]] = {
    ("/v1/audio/stream", "partials"): lambda word: word in fields_of(protocol.PartialReply),
    ("/v1/audio/stream", "committed"): lambda word: word in fields_of(protocol.PartialReply),
    ("/v1/audio/stream", "turns"): lambda word: (
        protocol.SpeechStoppedReply.__struct_config__.tag == word
    ),
    ("/v1/audio/stream", "language"): lambda word: start(**{word: "en"}).language == "en",
    ("/v1/audio/stream", "keywords"): lambda word: start(**{word: "Ada"}).context == "Ada",
    ("/v1/audio/stream", "resume"): lambda word: start(**{word: TOKEN}).resume is not None,
    ("/v1/audio/stream", "features"): lambda word: start(encoding=word).encoding == word,
    ("/v1/realtime", "partials"): lambda word: events.partial("item", "text")["type"] == word,
    ("/v1/realtime", "committed"): lambda word: events.delta("item", "text")["type"] == word,
    ("/v1/realtime", "turns"): lambda word: (
        realtime_input(**{word: {"type": "server_vad"}}).audio.input.turn_detection is not None
    ),
    ("/v1/realtime", "language"): lambda word: (
        realtime_input(transcription={word: "en"}).audio.input.transcription.language == "en"
    ),
    ("/v1/realtime", "keywords"): lambda word: (
        realtime_input(transcription={word: ["Ada"]}).audio.input.transcription.context == "Ada"
    ),
    ("/v1/realtime", "confidence"): lambda word: (
        SessionConfig().updated({"include": [word]}).include == (word,)
    ),
    ("/v1/listen", "partials"): lambda word: heeded(word, "true"),
    ("/v1/listen", "turns"): lambda word: Replies("request", "demo").results(
        "", 0, 1, is_final=True, speech_final=True
    )[word],
    ("/v1/listen", "language"): lambda word: heeded(word, "en"),
    ("/v1/listen", "keywords"): lambda word: heeded(word, "Ada"),
    ("/v1/listen", "channels"): lambda word: not listened(channels="2", **{word: "true"}).warnings,
    ("/v3/ws", "partials"): lambda word: turn()[word] == "a b",
    ("/v3/ws", "committed"): lambda word: [w[word] for w in turn()["words"]] == [True, False],
    ("/v3/ws", "turns"): lambda word: turn()[word] is False,
    ("/v3/ws", "language"): lambda word: streamed(**{word: "en"}).language == "en",
    ("/v3/ws", "keywords"): lambda word: streamed(**{word: '["Ada"]'}).context == "Ada",
    ("ModelStreamInfer", "partials"): lambda word: not inferred(word, False).partials,
    ("ModelStreamInfer", "language"): lambda word: inferred(word, "en").language == "en",
    ("ModelStreamInfer", "keywords"): lambda word: inferred(word, "Ada").context == "Ada",
    ("ModelInfer", "language"): lambda word: inferred(word, "en").language == "en",
    ("ModelInfer", "keywords"): lambda word: inferred(word, "Ada").context == "Ada",
    ("/v1/audio/transcriptions", "committed"): lambda word: form(word, "true").stream,
    ("/v1/audio/transcriptions", "language"): lambda word: form(word, "en").language == "en",
    ("/v1/audio/transcriptions", "keywords"): lambda word: form(word, "Ada").context == "Ada",
    ("/v1/audio/transcriptions", "confidence"): lambda word: form(word, "logprobs").wants_logprobs,
}
DECLARED = [
    (way.way.split()[-1], ability, word)
    for way in WAYS
    for ability in ABILITIES
    if (word := getattr(way, ability))
]


@pytest.mark.parametrize(("path", "ability", "word"), DECLARED)
def test_what_is_declared_is_there_under_that_name(path: str, ability: str, word: str) -> None:
    assert PROOFS[path, ability](word)


def test_every_way_is_declared_once_and_has_a_page_with_its_words() -> None:
    assert len({way.way for way in WAYS}) == len(WAYS)
    for way in WAYS:
        page = (ROOT / "docs" / way.page).read_text()
        assert way.way in page
        for ability in ABILITIES:
            assert getattr(way, ability).rsplit(".", 1)[-1] in page
