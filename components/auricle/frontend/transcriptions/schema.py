"""The OpenAPI description of a transcription request, shown at /docs."""

from __future__ import annotations

from typing import Any

from auricle.frontend.transcriptions.form import LISTS, TranscriptionForm
from auricle.frontend.transcriptions.translating import TranslationForm

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
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    properties = dict(schema["properties"])
    strategy = schema["$defs"]["ChunkingStrategy"]
    properties["chunking_strategy"] = {
        **strategy,
        "description": "`auto`, `none`, or an object with type `server_vad`",
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
