"""`POST /v1/audio/translations`: recordings in another language, as OpenAI and vLLM have it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, Literal

import msgspec
from starlette.types import Receive, Scope, Send

from auricle.annotation.translation.targets import CUT, check_targets
from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoints.languages import ENGLISH, language_code, language_name
from auricle.core.errors import AuricleError, UnsupportedValue, WorkerUnavailable, from_code
from auricle.frontend.protocols.transcriptions.endpoint import answer, endpointing, error_event
from auricle.frontend.protocols.transcriptions.form import (
    LISTS,
    TranscriptionForm,
    parse_as,
    read_form,
    take_upload,
)
from auricle.frontend.recordings.requests import (
    RecordingProtocol,
    RecordingRequest,
    RecordingRequests,
)
from auricle.frontend.recordings.transcriber import RecordingSegment, Whole
from auricle.frontend.transport.options import Language
from auricle.frontend.transport.request_errors import error_response

_PARAM = "to_language"
_STARTING_SECONDS = 30.0
TranslationFormat = Literal["json", "text", "verbose_json", "srt", "vtt"]


class TranslationForm(TranscriptionForm, frozen=True, kw_only=True):
    """All fields except `file`: those of a transcription, as far as a translation has such things,
    and vLLM's `to_language`.
    """

    task: ClassVar[str] = "translate"
    chunk: ClassVar[str] = "translation.chunk"
    response_format: TranslationFormat = "json"
    to_language: Language = "en"

    @property
    def target(self) -> str:
        """The target's ISO 639-1 code. Raises UnsupportedValue if there is none of that name."""
        code = language_code(language_name(self.to_language)) or self.to_language.strip().lower()
        check_targets((code,), _PARAM)
        return code

    def check(self) -> None:
        """Raise UnsupportedValue if what only a transcription has was asked for."""
        for field, asked in (
            ("include", bool(self.include)),
            ("timestamp_granularities", "word" in self.timestamp_granularities),
            ("max_line_characters", self.max_line_characters is not None),
        ):
            if asked:
                raise UnsupportedValue(
                    f"{field} cannot be used: a translation has no tokens or times of words", field
                )


class TranslationRequests:
    """Serves the requests of OpenAI's API for translated recordings, on the event loop."""

    def __init__(self, requests: RecordingRequests) -> None:
        self._requests = requests
        self._frontend = requests.frontend
        self._protocol = RecordingProtocol(
            "translations",
            self._translate,
            lambda error, _name: error_response(error),
            error_event,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        await self._requests.serve(self._protocol, scope, receive, send)

    async def _translate(self, asked: RecordingRequest) -> None:
        async with self._requests.body(asked, read_form) as form:
            upload = await take_upload(form)
            self._frontend.metrics.bytes("http", upload.size)
            request = parse_as(upload.fields, TranslationForm)
            request.check()
            self._frontend.check_model(request.model)
            self._frontend.check_translator((request.target,), _PARAM)
            by_speech = self._frontend.directions.of_speech(request.target)
            recording = asked.recording(
                upload.path,
                upload.name,
                language=request.spoken,
                languages=request.among,
                context=request.context,
                endpointing=endpointing(request.chunking_strategy, self._frontend.settings),
                translate=None if by_speech else request.target,
                to_english=by_speech,
            )
            texts = self._requests.texts(asked, recording)
            in_target = _in_english(texts) if by_speech else _in_target(texts, request.target)
            await asked.while_client_stays(answer(in_target, request, asked))


async def _in_english(
    outputs: AsyncGenerator[RecordingSegment | Whole, None],
) -> AsyncGenerator[RecordingSegment | Whole, None]:
    """Yield segments whose text is the speech model's own translation."""
    async with aclosing(outputs) as texts:
        async for output in texts:
            yield output if isinstance(output, Whole) else replace(output, language=ENGLISH)


async def _in_target(
    outputs: AsyncGenerator[RecordingSegment | Whole, None], target: str
) -> AsyncGenerator[RecordingSegment | Whole, None]:
    """Yield segments with their translations as text. Raises the error of one that is missing."""
    async with aclosing(outputs) as texts:
        async for output in texts:
            if isinstance(output, Whole) or not output.text:
                yield output
                continue
            if output.translation.missing not in ("", CUT):
                raise _error(output, target)
            name = language_name(target)
            yield replace(output, text=output.translation.text, language=name)


def _error(segment: RecordingSegment, target: str) -> AuricleError:
    """Return why a segment has no translation, or not all of it."""
    why, at = segment.translation.missing, segment.start / SAMPLE_RATE
    said = f"the text at {at:.1f} s was not translated ({why})"
    if why == UnsupportedValue.code:
        return UnsupportedValue(
            f"{said}: the model does not translate {segment.language or 'that'} into {target}",
            _PARAM,
        )
    if why == "starting":
        error = WorkerUnavailable(f"{said}: the translate pool is being started; try again")
        error.retry_after_seconds = _STARTING_SECONDS
        return error
    return from_code(why, said)


# The OpenAPI description of a transcription request, shown at /docs.

_DESCRIPTIONS = {
    "language": "ISO 639-1 code or name; detected by default",
    "languages": "in place of `language`; of up to four, each segment is in one of them",
    "prompt": "context the model may take into account, such as names",
    "keywords": "words that may come; context for the model, with `prompt`",
    "model": "the served model's name, see GET /v1/models",
    "include": "the log probabilities of the tokens: with json, verbose_json, a stream",
    "response_format": "`diarized_json` says who speaks, where there is a speaker model",
    "temperature": "without effect: decoding is greedy",
    "stream": "server-sent events as text becomes known",
    "timestamp_granularities": "with verbose_json",
    "max_line_characters": "with srt and vtt: a subtitle is a line of whole words",
    "chunking_strategy": "`auto`, `none`, or an object with type `server_vad`",
    "stream_include_usage": (
        "of vLLM's API: with `stream`, text comes in chunks as vLLM sends them"
    ),
    "stream_continuous_usage_stats": "without effect",
    "max_completion_tokens": "without effect: the server bounds the text of every part",
    "to_language": "of vLLM's API: ISO 639-1 code or name of the language to translate into",
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_REFUSALS = {
    "400": "a field cannot be used, or the file is not audio",
    "401": "no or unknown API key",
    "403": "the API key is switched off",
    "404": "no such model",
    "408": "the upload stalled or was too slow",
    "413": "the request or the recording is larger than it may be",
    "429": "the API key or address has used what it may use; see Retry-After",
    "503": "the server is full; see Retry-After",
    "507": "the server's disk is full; see Retry-After",
}


def _request_schema(kind: type[TranscriptionForm]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    strategy = parts["ChunkingStrategy"]
    inner = {name: _value(given) for name, given in strategy["properties"].items()}
    given = parts[kind.__name__]["properties"]
    given["chunking_strategy"] = {**strategy, "properties": inner}
    properties = {
        name: {**_value(schema), "description": _DESCRIPTIONS[name]}
        for name, schema in given.items()
    }
    for name in LISTS:
        properties[f"{name}[]"] = properties.pop(name)
    file = {"type": "string", "format": "binary", "description": "the recording"}
    return {
        "type": "object",
        "required": ["file", "model"],
        "additionalProperties": False,
        "properties": {"file": file, **properties},
    }


def _value(given: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, which a form leaves out rather than send as null."""
    several = [one for one in given.get("anyOf", ()) if one != {"type": "null"}]
    kept = several[0] if several else given
    # Patterns say which characters a text may have; they are Python's.
    found = {name: value for name, value in kept.items() if name != "pattern"}
    if "items" in found:
        found["items"] = _value(found["items"])
    return found


def _responses() -> dict[str, Any]:
    refused = {
        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for status, text in _REFUSALS.items()
    }
    done = {
        "description": "the transcript, in the format asked for",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/plain": {},
            "application/x-subrip": {},
            "text/vtt": {},
            "text/event-stream": {},
        },
    }
    return {"200": done, **refused}


def _openapi(kind: type[TranscriptionForm]) -> dict[str, Any]:
    return {
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": _request_schema(kind)}},
        },
        "responses": _responses(),
    }


TRANSCRIPTION_OPENAPI = _openapi(TranscriptionForm)
TRANSLATION_OPENAPI = _openapi(TranslationForm)
