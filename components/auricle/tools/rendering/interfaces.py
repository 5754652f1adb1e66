"""Writes the pages and types that are generated from protocols and settings: `make interfaces`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel

from auricle.config.kubernetes import KubernetesSettings
from auricle.config.settings import SECTIONS, CommonSettings
from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.capabilities import schemas as abilities_schemas
from auricle.frontend.ops.routes import schemas as operations_schemas
from auricle.frontend.protocols import (
    assemblyai,
    audiosocket,
    deepgram,
    kserve,
    realtime,
    riva,
    stream,
    transcriptions,
    twilio,
    vapi,
    wyoming,
)
from auricle.frontend.protocols.stream.asyncapi import asyncapi, names, schemas
from auricle.launcher.config import COMMON, KUBERNETES
from auricle.launcher.options import Option, options

# Writes docs/settings.md: every section and key of config files, as the settings declare them.

_TOP = f"""\
# Settings

`make interfaces` writes this page from the declarations of the settings; do not edit it.

A config file is YAML: sections, and in each the keys below. `{COMMON}` applies to all components; a
component's own section overrides it, and the command line overrides both, as in
`--Frontend.port=9000`. Every component accepts the keys of `{COMMON}` in its own section, except
`placement` and `block_size`, which must be the same everywhere. A start fails with an
error that names every unknown key and every value out of bounds; `auricle check-config FILE` also
checks the files that the settings name, without starting anything.

Names end in their units. `null` means that a value is not set.

"""
_ABOUT = {
    COMMON: "Settings of all components.",
    "Frontend": "The server for clients: see [limits](limits.md) and [protocols](ways_in.md).",
    "DynamoFrontend": "The unmodified `python -m dynamo.frontend`, if a graph has one.",
    "Processor": "Sessions: when audio is decoded, and when text is committed.",
    "EncodeWorker": "The encoder pool, which keeps [embeddings](embeddings.md).",
    "PdWorker": "The pool of vLLM's engines; [GPUs](gpu.md) has the arithmetic.",
    "Planner": "The autoscaler of the pools: see [planner](planner.md).",
    KUBERNETES: "Only for `auricle render`: the cluster for which it writes manifests.",
}


def sections() -> Mapping[str, type[BaseModel]]:
    """Return the settings of all sections, `Common` first."""
    return {COMMON: CommonSettings, **SECTIONS, KUBERNETES: KubernetesSettings}


def own_options(kind: type[BaseModel]) -> list[Option]:
    """Return the options of a section without those that equal `Common`'s."""
    common = {} if kind is CommonSettings else options(CommonSettings)
    return [option for key, option in options(kind).items() if common.get(key) != option]


def settings_page() -> str:
    """Return the page: a table of options for each section."""
    return _TOP + "\n".join(line for name in sections() for line in _section(name)) + "\n"


def _section(name: str) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    if name in _ABOUT:
        yield _ABOUT[name]
        yield ""
    yield "| key | type | default | unit | meaning |"
    yield "|---|---|---|---|---|"
    for option in own_options(sections()[name]):
        takes = f"{option.takes}{', ' if option.bounds else ''}{option.bounds}"
        cells = (f"`{option.key}`", takes, _default(option.default), option.unit, _said(option))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(value: object) -> str:
    """Return a default in YAML."""
    if value == "":
        return "empty"
    if isinstance(value, PurePath):
        value = value.as_posix()
    if isinstance(value, tuple):
        value = list(value)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _said(option: Option) -> str:
    """Return the description as a sentence."""
    text = option.description
    first = text.partition(" ")[0]
    if first.islower():  # unlike vLLM's
        text = text[:1].upper() + text[1:]
    return f"{text}."


# Writes JSON Schemas as TypeScript types.

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


# Writes docs/ways_in.md: the features that each protocol declares.

WAYS = (
    stream.CAPABILITIES,
    realtime.CAPABILITIES,
    realtime.TRANSLATIONS,
    transcriptions.CAPABILITIES,
    transcriptions.TRANSLATIONS,
    *deepgram.CAPABILITIES,
    assemblyai.CAPABILITIES,
    *riva.CAPABILITIES,
    *kserve.CAPABILITIES,
    wyoming.CAPABILITIES,
    twilio.CAPABILITIES,
    vapi.CAPABILITIES,
    audiosocket.CAPABILITIES,
)
_WAYS_TOP = """\
# Features of each protocol

`make interfaces` writes this page from the declarations of each protocol; do not edit it. All
protocols use the same recognizer: the same audio gives the same words.

"""


def ways_page() -> str:
    """Return the page: tables of the features, and of their names in each protocol."""
    abilities = [field for field in dataclasses.fields(ProtocolCapabilities) if field.metadata]
    lines = [
        _row("", *(field.name for field in abilities)),
        _row(*["---"] * (len(abilities) + 1)),
        *(
            _row(_link(way), *("yes" if getattr(way, f.name) else "" for f in abilities))
            for way in WAYS
        ),
        "",
        _row("", "feature", "name in each protocol"),
        _row(*["---"] * 3),
        *(_row(f.name, f.metadata["means"], _spelt(f.name)) for f in abilities),
    ]
    return _WAYS_TOP + "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _link(way: ProtocolCapabilities) -> str:
    return f"[`{way.route}`]({way.page})"


def _spelt(ability: str) -> str:
    """Return the names of a feature, with the protocols that use each."""
    ways: dict[str, list[str]] = {}
    for way in WAYS:
        if word := getattr(way, ability):
            ways.setdefault(word, []).append(f"`{way.route}`")
    return "; ".join(f"`{word}` of {', '.join(found)}" for word, found in ways.items())


_HEADER = "// Messages of /v1/audio/stream. Written by `make interfaces`; not to be edited.\n\n"
_OPERATIONS = "// Documents of /v1/operations. Written by `make interfaces`; not to be edited.\n\n"
_MODELS = "// Parts of /v1/models. Written by `make interfaces`; not to be edited.\n\n"
_PAGES = Path("components/auricle/frontend/page")


def interfaces() -> dict[Path, str]:
    """Return the files' contents, by their paths from the repository's root."""
    client, server = names()
    unions = {"ClientMessage": client, "StreamEvent": server}
    return {
        Path("docs/ways_in.md"): ways_page(),
        Path("docs/settings.md"): settings_page(),
        Path("docs/asyncapi.json"): json.dumps(asyncapi(), indent=2) + "\n",
        _PAGES / "assets/messages.d.ts": _HEADER + declarations(schemas(), unions),
        _PAGES / "assets/models.d.ts": _MODELS + declarations(abilities_schemas(), {}),
        _PAGES / "operations/operations.d.ts": _OPERATIONS + declarations(operations_schemas(), {}),
    }


if __name__ == "__main__":
    for path, text in interfaces().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)
