"""The OpenAPI description of `POST /v1/listen`, shown at /docs."""

from __future__ import annotations

from typing import Any

from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL

_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "model": ("the served model's name or an alias; see GET /v1/models", {"maxLength": MODEL}),
    "language": ("a code or name; detected by default", {"maxLength": LANGUAGE}),
    "keyterm": ("a term that the model may take into account", {"maxLength": CONTEXT}),
    "detect_language": ("name the language in the answer", {"enum": ["true", "false"]}),
    "utterances": ("list each segment by itself too", {"enum": ["true", "false"]}),
    "diarize": ("say who speaks, where that is known", {"enum": ["true", "false"]}),
    "diarize_model": ("as diarize; there is one model", {"enum": ["latest", "v1", "v2"]}),
    "multichannel": ("transcribe each channel by itself", {"enum": ["true", "false"]}),
}
_ERROR = {
    "type": "object",
    "required": ["err_code", "err_msg", "request_id"],
    "properties": {
        "err_code": {"type": "string"},
        "err_msg": {"type": "string"},
        "request_id": {"type": "string"},
    },
}
_REFUSALS = {
    "400": "an option cannot be used, or the body is not audio",
    "401": "no or unknown API key",
    "403": "the API key is switched off, or not for recordings",
    "404": "no such model",
    "408": "the upload stalled or was too slow",
    "413": "the request or the recording is larger than it may be",
    "429": "the API key or address has used what it may use; see Retry-After",
    "503": "the server is full; see Retry-After",
    "507": "the server's disk is full; see Retry-After",
}

LISTEN_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": text,
            "schema": {"type": "string", **bounds},
        }
        for name, (text, bounds) in _QUERY.items()
    ],
    "requestBody": {
        "required": True,
        "description": "the recording itself",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "responses": {
        "200": {
            "description": "the transcript",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **{
            status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
            for status, text in _REFUSALS.items()
        },
    },
}
