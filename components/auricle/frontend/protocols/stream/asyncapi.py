"""The AsyncAPI description of `/v1/audio/stream`: docs/asyncapi.json, written by `make interfaces`.

Fields, types and bounds come from messages.py and protocol/stream.py.
"""

from __future__ import annotations

import inspect
from typing import Any, get_args

import msgspec

from auricle import __version__
from auricle.annotation.translation.targets import MOST_TARGETS, MOST_TERMS, PATTERN, TERM
from auricle.core.limits import RESUME_TOKEN
from auricle.frontend.protocols.stream import messages as protocol
from auricle.protocol import stream

Schema = dict[str, Any]
_SCHEMAS = "#/components/schemas/"
_MESSAGES = "#/components/messages/"
_CLIENT = (protocol.Start, protocol.End)
_SERVER: tuple[type[msgspec.Struct], ...] = get_args(stream.Reply)
_NAMES = {
    "Word": "TimedWord",
    **{kind.__name__: f"{kind.__name__}Message" for kind in _CLIENT},
    **{kind.__name__: f"{kind.__name__}Event" for kind in _SERVER},
}
_BOUNDS: dict[str, dict[str, Schema]] = {
    "StartMessage": {
        "translate": {
            "items": {"type": "string", "pattern": PATTERN},
            "maxItems": MOST_TARGETS,
            "uniqueItems": True,
        },
        "terms": {
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "string", "pattern": r"\S", "maxLength": TERM},
                "maxProperties": MOST_TERMS,
            }
        },
    },
    "Resume": {"token": {"maxLength": RESUME_TOKEN}},
}


def names() -> tuple[list[str], list[str]]:
    """Return the names of the schemas of the client's messages, and of the server's."""
    return [_name(kind.__name__) for kind in _CLIENT], [_name(kind.__name__) for kind in _SERVER]


def schemas() -> dict[str, Schema]:
    """Return the JSON Schema of each message, and of the structs in them, by name."""
    _, client_types = msgspec.json.schema_components(_CLIENT, ref_template="{name}")
    _, server_types = msgspec.json.schema_components(_SERVER, ref_template="{name}")
    parts: tuple[type[msgspec.Struct], ...] = (*_SERVER, stream.Word)
    omitting = {kind.__name__ for kind in parts if kind.__struct_config__.omit_defaults}
    found = {_name(name): _refined(_name(name), schema) for name, schema in client_types.items()}
    for name, schema in server_types.items():
        if name not in client_types:
            found[_name(name)] = _always(_refined(_name(name), schema), omits=name in omitting)
    return found


def asyncapi() -> dict[str, Any]:
    """Return the AsyncAPI 3.0 document."""
    client, server = names()
    described = schemas()
    messages = {name: _message(name, described[name]) for name in (*client, *server)}
    messages["StartMessage"]["examples"] = [{"payload": {"type": "start", "sample_rate": 16000}}]
    messages["Audio"] = {
        "name": "Audio",
        "summary": "One channel of samples, in binary messages of any size.",
        "contentType": "application/octet-stream",
        "payload": {"type": "string", "format": "binary"},
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "auricle: WS /v1/audio/stream",
            "version": __version__,
            "description": "Live transcription; docs/websocket.md describes each field.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"frontend": _server("ws"), "frontendWithTls": _server("wss")},
        "channels": {"stream": _channel([*client, "Audio", *server])},
        "operations": {
            "listen": _operation(
                "receive",
                [*client, "Audio"],
                "`start`, then audio, then `end`, after which nothing.",
            ),
            "tell": _operation(
                "send", server, "`ready`, then text as it comes, then `done` or `error`."
            ),
        },
        "components": {
            "schemas": described,
            "messages": messages,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _name(kind: str) -> str:
    """The name of a message in documents: `PartialEvent`, as `Partial` is TypeScript's own."""
    return _NAMES.get(kind, kind)


def _refined(name: str, schema: Schema) -> Schema:
    """Return msgspec's schema of a message with our bounds and names."""
    properties = {}
    for field, given in schema["properties"].items():
        kept = {"const": given["enum"][0]} if field == "type" else _renamed(given)
        _not_null(kept).update(_BOUNDS.get(name, {}).get(field, {}))
        properties[field] = kept
    description = inspect.cleandoc(schema["description"]).replace("None", "null")
    return schema | {"title": name, "description": description, "properties": properties}


def _always(schema: Schema, *, omits: bool) -> Schema:
    """Return the schema of a server's message, whose fields may be absent but never null."""
    properties = {field: _not_null(given) for field, given in schema["properties"].items()}
    required = schema["required"] if omits else list(properties)
    return schema | {"properties": properties, "required": required}


def _not_null(schema: Schema) -> Schema:
    kept: Schema = next((o for o in schema.get("anyOf", ()) if o.get("type") != "null"), schema)
    return kept


def _renamed(given: Schema) -> Schema:
    # Patterns say which characters a text may have; they are Python's.
    kept = {
        key: value
        for key, value in given.items()
        if key != "pattern" and (key != "default" or _simple(value))
    }
    if "$ref" in kept:
        kept = {"$ref": _SCHEMAS + _name(kept["$ref"])}
    if "items" in kept:
        kept["items"] = _renamed(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [_renamed(one) for one in kept["anyOf"]]
    return kept


def _simple(default: object) -> bool:
    return default is not None and not isinstance(default, dict)


def _message(name: str, schema: Schema) -> dict[str, Any]:
    return {
        "name": name,
        "summary": schema["description"].split("\n\n")[0].replace("\n", " "),
        "payload": {"$ref": _SCHEMAS + name},
    }


def _server(protocol_name: str) -> dict[str, Any]:
    return {
        "host": "127.0.0.1:8080",
        "protocol": protocol_name,
        "description": "a frontend; a key is needed where keys are configured",
        "security": [{"$ref": "#/components/securitySchemes/key"}],
    }


def _channel(messages: list[str]) -> dict[str, Any]:
    resume = {"type": "string", "enum": ["true"], "description": "to resume an earlier session"}
    refused = "a refused client receives an `error` instead of an HTTP status"
    refusal_message = {"type": "string", "enum": ["true"], "description": refused}
    query = {"resume": resume, "refusal_message": refusal_message}
    return {
        "address": "/v1/audio/stream",
        "messages": {name: {"$ref": _MESSAGES + name} for name in messages},
        "bindings": {
            "ws": {
                "method": "GET",
                "query": {"type": "object", "properties": query},
                "bindingVersion": "0.1.0",
            }
        },
    }


def _operation(action: str, messages: list[str], summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/stream"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/stream/messages/{name}"} for name in messages],
    }
