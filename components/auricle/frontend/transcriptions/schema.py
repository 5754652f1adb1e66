"""The OpenAPI description of a transcription request, shown at /docs."""

from __future__ import annotations

from typing import Any

import msgspec

from auricle.frontend.transcriptions.form import LISTS, TranscriptionForm
from auricle.frontend.transcriptions.translating import TranslationForm

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
