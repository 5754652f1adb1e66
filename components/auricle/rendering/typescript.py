"""Writes JSON Schemas as TypeScript types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
_TYPES = {
    "integer": "number",
    "number": "number",
    "string": "string",
    "boolean": "boolean",
    "null": "null",
}


def declarations(schemas: Mapping[str, Schema], unions: Mapping[str, Sequence[str]]) -> str:
    """Return an interface per schema, and a type per union of them, by name."""
    parts = [_interface(name, schema) for name, schema in sorted(schemas.items())]
    parts += [f"export type {name} = {' | '.join(of)};\n" for name, of in unions.items()]
    return "\n".join(parts)


def _interface(name: str, schema: Schema) -> str:
    comment = "".join(f" * {line}".rstrip() + "\n" for line in schema["description"].splitlines())
    fields = "".join(
        f"  {field}{'' if field in schema['required'] else '?'}: {_type(given)};\n"
        for field, given in schema["properties"].items()
    )
    return f"/**\n{comment} */\nexport interface {name} {{\n{fields}}}\n"


def _type(given: Schema) -> str:
    if "$ref" in given:
        return str(given["$ref"]).rsplit("/", 1)[1]
    if "const" in given or "enum" in given:
        return " | ".join(f'"{value}"' for value in given.get("enum") or [given["const"]])
    if "anyOf" in given:
        return " | ".join(_type(one) for one in given["anyOf"])
    match given["type"]:
        case "array":
            return f"readonly {_type(given['items'])}[]"
        case "object":
            return f"Readonly<Record<string, {_type(given['additionalProperties'])}>>"
        case plain:
            return _TYPES[plain]
