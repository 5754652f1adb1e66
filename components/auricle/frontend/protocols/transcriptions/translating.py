"""`POST /v1/audio/translations`: recordings in another language, as OpenAI and vLLM have it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, Literal

import msgspec

from auricle.annotation.translation.targets import CUT, check_targets
from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoints.languages import ENGLISH, language_name, target_code
from auricle.core.errors import AuricleError, UnsupportedValue, WorkerUnavailable, from_code
from auricle.frontend.protocols.transcriptions.endpoint import Outputs, TranscriptionRequests
from auricle.frontend.protocols.transcriptions.form import LISTS, TranscriptionForm
from auricle.frontend.protocols.transcriptions.multipart import Upload
from auricle.frontend.recordings.requests import refusal_responses
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole
from auricle.frontend.transport.options import Language

_PARAM = "to_language"
_STARTING_SECONDS = 30.0
TranslationFormat = Literal["json", "text", "verbose_json", "srt", "vtt"]


class TranslationForm(TranscriptionForm, frozen=True, kw_only=True):
    """All fields except `file`: the applicable ones of a transcription and vLLM's `to_language`."""

    task: ClassVar[str] = "translate"
    chunk: ClassVar[str] = "translation.chunk"
    response_format: TranslationFormat = "json"
    to_language: Language = "en"

    @property
    def target(self) -> str:
        """The target's ISO 639-1 code. Raises UnsupportedValue for an unknown language."""
        code = target_code(self.to_language)
        check_targets((code,), _PARAM)
        return code

    def check(self) -> None:
        """Raise UnsupportedValue for fields that apply to transcriptions only, too."""
        super().check()
        for field, given in (
            ("include", bool(self.include)),
            ("timestamp_granularities", "word" in self.timestamp_granularities),
            ("max_line_characters", self.max_line_characters is not None),
            ("speakers", self.speakers),
        ):
            if given:
                missing = "a translation has no tokens, no speakers and no times of words"
                raise UnsupportedValue(f"{field} cannot be used: {missing}", field)


class TranslationRequests(TranscriptionRequests):
    """Serves the requests of OpenAI's API for translated recordings, on the event loop."""

    name = "translations"
    form = TranslationForm

    def recording(self, upload: Upload, request: TranscriptionForm) -> Recording:
        """Return the recording to translate. Raises BadRequest if that is not possible here."""
        assert isinstance(request, TranslationForm)
        self._frontend.check_translator((request.target,), _PARAM)
        by_speech = self._frontend.directions.of_speech(request.target)
        return replace(
            super().recording(upload, request),
            translate=None if by_speech else request.target,
            to_english=by_speech,
        )

    def outputs(self, outputs: Outputs, request: TranscriptionForm) -> Outputs:
        assert isinstance(request, TranslationForm)
        if self._frontend.directions.of_speech(request.target):
            return _in_english(outputs)
        return _in_target(outputs, request.target)


async def _in_english(outputs: Outputs) -> Outputs:
    """Yield segments that the speech model itself has translated."""
    async with aclosing(outputs) as texts:
        async for output in texts:
            yield output if isinstance(output, Whole) else replace(output, language=ENGLISH)


async def _in_target(outputs: Outputs, target: str) -> Outputs:
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
    why, at = segment.translation.missing, segment.start / SAMPLE_RATE
    problem = f"the text at {at:.1f} s was not translated ({why})"
    if why == UnsupportedValue.code:
        return UnsupportedValue(
            f"{problem}: the model does not translate {segment.language or 'that'} into {target}",
            _PARAM,
        )
    if why == "starting":
        error = WorkerUnavailable(f"{problem}: the translate pool is being started; try again")
        error.retry_after_seconds = _STARTING_SECONDS
        return error
    return from_code(why, problem)


# The OpenAPI description of a transcription request, shown at /docs.

_DESCRIPTIONS = {
    "language": "ISO 639-1 code or name; detected by default",
    "languages": "in place of `language`; of up to four, each segment is in one of them",
    "prompt": "context the model may take into account, such as names",
    "keywords": "words that may occur; context for the model, with `prompt`",
    "model": "the served model's name, see GET /v1/models",
    "include": "the log probabilities of the tokens: with json, verbose_json, a stream",
    "response_format": "`diarized_json` names speakers, where there is a speaker model",
    "temperature": "without effect: decoding is greedy",
    "stream": "server-sent events as text becomes known",
    "timestamp_granularities": "with verbose_json and diarized_json",
    "speakers": "with verbose_json: the text by speaker as well, where there is a speaker model",
    "max_speakers": "with speakers: others count as the most similar one",
    "max_line_characters": "with srt and vtt: a subtitle is a line of whole words",
    "chunking_strategy": "`auto`, `none`, or an object with type `server_vad`",
    "stream_include_usage": (
        "of vLLM's API: with `stream`, text comes in chunks as vLLM sends them"
    ),
    "stream_continuous_usage_stats": "without effect",
    "max_completion_tokens": "without effect: the server bounds the text of every part",
    "on_damage": "`keep`: transcribe what can be decoded of a damaged recording, with warnings",
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
    # Patterns list the characters that a text may have, in Python's syntax.
    found = {name: value for name, value in kept.items() if name != "pattern"}
    if "items" in found:
        found["items"] = _value(found["items"])
    return found


def _responses() -> dict[str, Any]:
    refused = refusal_responses("a field cannot be used, or the file is not audio", _ERROR)
    done = {
        "description": "the transcript, in the requested format",
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
