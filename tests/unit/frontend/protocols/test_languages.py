"""Languages are read alike by all protocols, and those that the model lacks are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
import websockets

from auricle.checkpoints.languages import spoken_language
from auricle.frontend.protocols.assemblyai.options import parse_options as streamed
from auricle.frontend.protocols.deepgram.options import parse_options, parse_recording_options
from auricle.frontend.protocols.kserve.messages import parse_request
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.riva.options import parse_config
from auricle.frontend.protocols.transcriptions.form import parse_form
from auricle.frontend.protocols.twilio import Call, TwilioStart, parse_message
from auricle.frontend.transport.grpc.schema import message
from tests.fakes.front import Front
from tests.fakes.kserve import request
from tests.fakes.twilio import start

pytestmark = pytest.mark.unit
SAMPLES = {"encoding": "linear16", "sample_rate": "16000"}


def transcribed(language: str) -> str | None:
    return parse_form([("model", "demo"), ("language", language)]).spoken


def realtime(language: str) -> str | None:
    changes = {"audio": {"input": {"transcription": {"language": language}}}}
    return SessionConfig().updated(changes).audio.input.transcription.spoken


def assembly(language: str) -> str | None:
    return streamed(urlencode({"sample_rate": "16000", "language_code": language}), 500).language


def riva(language: str) -> str | None:
    config = message("nvidia.riva.asr.RecognitionConfig")(language_code=language)
    return parse_config(config, streaming=True).language


def kserve(language: str) -> str | None:
    return parse_request(
        request(sequence_id=1, sequence_start=True, language=language)
    ).options.language


def twilio(language: str) -> str | None:
    begun = parse_message(start(parameters={"language": language}))
    assert isinstance(begun, TwilioStart)
    return Call.begun_by(begun.start).language


PARSERS: dict[str, Callable[[str], str | None]] = {
    "own, Wyoming, Vapi": spoken_language,
    "transcriptions": transcribed,
    "realtime": realtime,
    "deepgram": lambda text: parse_options(urlencode({**SAMPLES, "language": text})).language,
    "deepgram recordings": lambda text: parse_recording_options(f"language={text}").language,
    "assemblyai": assembly,
    "riva": riva,
    "kserve": kserve,
    "twilio": twilio,
}


@pytest.mark.parametrize("parse", PARSERS.values(), ids=list(PARSERS))
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(("en", "en"), ("EN", "en"), ("en_US", "en"), ("en-us", "en"), ("English", "en")),
        *(("zh-CN", "zh"), ("zh_Hans", "zh"), ("zh-Hans-CN", "zh"), ("cmn", "zh")),
        *(("en_US.UTF-8", "en"), ("yue", "yue"), ("jv", "jw"), ("nb-NO", "no"), ("he_IL", "he")),
        *(("auto", None), ("AUTO", None), ("multi", None), ("", None)),
        ("Klingon", "Klingon"),
    ],
)
def test_a_language_is_read_as_clients_write_it(
    parse: Callable[[str], str | None], given: str, meant: str | None
) -> None:
    assert parse(given) == meant


def test_languages_among_which_any_may_be_are_no_choice() -> None:
    fields = [("model", "demo"), ("languages[]", "auto"), ("languages[]", "de")]
    form = parse_form(fields)
    assert (form.spoken, form.among) == (None, ())
    assert parse_form([*fields[:1], ("language", "auto"), ("languages[]", "de_DE")]).spoken == "de"


REFUSED = "'de' is not supported; supported: en (English)"


async def first_error(front: Front, first: dict[str, Any], path: str) -> dict[str, Any]:
    async with front.connect(path) as connection:
        if path == "/v1/realtime":
            await connection.recv()
        await connection.send(json.dumps(first))
        return dict(json.loads(await connection.recv()))


async def test_a_language_that_the_model_lacks_is_refused_before_audio_comes() -> None:
    front = Front()
    assert front.frontend.spoken.languages == ("en",)
    async with asyncio.timeout(60), front.serving():
        changes = {"audio": {"input": {"transcription": {"language": "de-DE"}}}}
        update = {"type": "session.update", "session": changes, "event_id": "mine"}
        refused = (await first_error(front, update, "/v1/realtime"))["error"]
        assert refused["param"] == "session.audio.input.transcription.language"
        assert (refused["code"], refused["event_id"]) == ("invalid_value", "mine")
        assert refused["message"] == f"{refused['param']} {REFUSED}"
        begin = {"type": "start", "sample_rate": 16_000, "language": "German"}
        refused = await first_error(front, begin, "/v1/audio/stream")
        assert refused["message"] == f"language {REFUSED}"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/listen?encoding=linear16&sample_rate=16000&language=de", "language"),
        ("/v3/ws?sample_rate=16000&language_code=de", "language_code"),
    ],
)
async def test_a_language_that_the_model_lacks_is_refused_before_the_session(
    path: str, field: str
) -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving(), front.connect(path) as socket:
        assert f"{field} {REFUSED}" in str(await socket.recv())


async def test_a_language_that_the_model_lacks_is_refused_at_vapis_handshake() -> None:
    front = Front()
    async with asyncio.timeout(60), front.serving():
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with front.connect("/v1/vapi?language=de"):
                pass
    assert refused.value.response.status_code == 400
    assert f"language {REFUSED}" in refused.value.response.body.decode()
