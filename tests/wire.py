"""Stores the shape and samples of every message, and finds changes that old processes would meet.

`python -m tests.wire` writes `tests/wire_samples/VERSION.json` for the present version of the wire,
or refuses a change that needs another version; `auricle/protocol/__init__.py` has the rules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from auricle import protocol
from auricle.frontend.protocols.stream.resume import ResumeState
from auricle.load import reports
from auricle.protocol import (
    annotation,
    control,
    diagnosis,
    frontends,
    recognition,
    sessions,
    views,
)

SAMPLES: Final = Path(__file__).parent / "wire_samples"
_MODULES = (annotation, control, diagnosis, frontends, recognition, sessions, views, reports)
# Read by processes of all versions. A client keeps `ResumeState` in its token.
OF_ALL_VERSIONS: Final = (
    *(control.Refusal, control.AskAlive, control.Alive),
    *(diagnosis.AskDescription, diagnosis.Description),
    *(reports.WorkerLoad, reports.ProcessorLoad, reports.StartingPools),
    ResumeState,
)
# Of endpoints that older processes of this version of the wire neither serve nor call.
OF_NEW_ENDPOINTS: Final = ("AskUse", "KeyUse")
Shape = dict[str, Any]


def messages() -> list[type[msgspec.Struct]]:
    """Every message between processes."""
    found = [
        kind
        for module in _MODULES
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind.__module__ == module.__name__
    ]
    return [*found, ResumeState]


def recorded(kinds: Iterable[type]) -> dict[str, Shape]:
    """The shape and the samples of these messages and of all that they contain, by name."""
    found: dict[str, Shape] = {}
    for kind in kinds:
        for name, shape in _shapes(inspect.type_info(kind)):
            assert found.setdefault(name, shape) == shape, f"two messages are called {name}"
    for kind in kinds:
        found[kind.__name__]["samples"] = samples(kind)
    return dict(sorted(found.items()))


def samples(kind: type) -> list[str]:
    """Messages as hexadecimal msgpack: one with every field, one with required fields only."""
    info = inspect.type_info(kind)
    return [
        msgspec.msgpack.encode(_example(info, "", whole=whole)).hex() for whole in (True, False)
    ]


def check_sample(kind: type, sample: str) -> None:
    """Check that a message decodes, and that no value of it is ignored."""
    content = bytes.fromhex(sample)
    decoded = msgspec.msgpack.decode(content, type=kind)
    _check_kept(
        msgspec.msgpack.decode(content),
        msgspec.msgpack.decode(msgspec.msgpack.encode(decoded)),
        kind.__name__,
    )


def _check_kept(before: Any, after: Any, where: str) -> None:
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in after, f"{where}.{key} is ignored"
            _check_kept(value, after[key], f"{where}.{key}")
    elif isinstance(before, list):
        assert len(before) <= len(after), f"{where} is cut"
        for number, value in enumerate(before):
            _check_kept(value, after[number], f"{where}[{number}]")
    else:
        assert before == after, f"{where} was {before!r} and became {after!r}"


def breaks(before: Mapping[str, Shape], now: Mapping[str, Shape]) -> Iterator[str]:
    """Yield the changes that need another version of the wire."""
    for name, was in before.items():
        shape = now.get(name)
        if shape is None:
            yield f"{name} was removed"
            continue
        if (was["tag"], was["array"]) != (shape["tag"], shape["array"]):
            yield f"{name} has another tag or form"
        for field, kind in was["fields"].items():
            if field not in shape["fields"]:
                yield f"{name}.{field} was removed"
            elif shape["fields"][field] != kind:
                yield f"{name}.{field} was {kind!r} and is {shape['fields'][field]!r}"
        for field in shape["fields"].keys() - was["fields"].keys():
            if not shape["fields"][field].endswith(_OPTIONAL):
                yield f"{name}.{field} is new and has no default"
        if shape["array"] and list(shape["fields"])[: len(was["fields"])] != list(was["fields"]):
            yield f"{name} is an array, whose new fields must come last"
    for name in sorted(now.keys() - before.keys()):
        if now[name]["tag"] is not None and name not in OF_NEW_ENDPOINTS:
            yield f"{name} is a new message"


_OPTIONAL = ", optional"


def _shapes(info: inspect.Type) -> Iterator[tuple[str, Shape]]:
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        of_struct = isinstance(info, inspect.StructType)
        yield (
            info.cls.__name__,
            {
                "tag": info.tag if of_struct else None,
                "array": of_struct and info.array_like,
                "fields": {
                    field.encode_name: _name(field.type) + ("" if field.required else _OPTIONAL)
                    for field in info.fields
                },
            },
        )
    for part in _parts(info):
        yield from _shapes(part)


def _parts(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        return [field.type for field in info.fields]
    several = [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
    single = ("item_type", "key_type", "value_type", "type")
    return [*several, *(getattr(info, name) for name in single if hasattr(info, name))]


def _name(info: inspect.Type) -> str:
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        return info.cls.__name__
    if isinstance(info, inspect.LiteralType):
        return " | ".join(map(repr, info.values))
    parts = [_name(part) for part in _parts(info)]
    if isinstance(info, inspect.UnionType | inspect.Metadata):
        return " | ".join(parts)
    kind = type(info).__name__.removesuffix("Type").lower()
    return f"{kind}[{', '.join(parts)}]" if parts else kind


def _example(info: inspect.Type, name: str, *, whole: bool) -> Any:
    """An example of the type, as plain values that differ from defaults."""
    scalars = {inspect.BoolType: True, inspect.IntType: 3, inspect.FloatType: 0.5}
    scalars |= {inspect.StrType: name, inspect.BytesType: name.encode(), inspect.NoneType: None}
    if type(info) in scalars:
        return scalars[type(info)]
    if isinstance(info, inspect.LiteralType):
        return info.values[-1]
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        return _structure(info, whole=whole)
    parts = [_example(part, name, whole=whole) for part in _parts(info)]
    if isinstance(info, inspect.DictType):
        return {parts[0]: parts[1]}
    if isinstance(info, inspect.UnionType | inspect.Metadata):
        return next(part for part in parts if part is not None)
    return parts


def _structure(info: inspect.StructType | inspect.DataclassType, *, whole: bool) -> Any:
    fields = {
        field.encode_name: not field.default
        if isinstance(field.default, bool)
        else _example(field.type, field.name, whole=whole)
        for field in info.fields
        if whole or field.required
    }
    if isinstance(info, inspect.DataclassType):
        return fields
    if info.array_like:
        return list(fields.values())
    return fields if info.tag is None else {info.tag_field: info.tag, **fields}


def stored(version: int) -> dict[str, Shape]:
    """The stored messages of a version; empty without any."""
    path = SAMPLES / f"{version}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> None:
    """Store the messages of the present version."""
    before, now = stored(protocol.WIRE), recorded(messages())
    if broken := list(breaks(before, now)) if before else []:
        sys.exit(
            "\n".join(broken) + f"\nThese changes need a version of the wire after {protocol.WIRE}:"
            " raise WIRE in components/auricle/protocol/__init__.py, whose text has the rules."
        )
    for name, was in before.items():
        # Samples stay for ever; the ones of new fields are added.
        kept = was.get("samples", [])
        if added := [one for one in now[name].get("samples", []) if one not in kept]:
            now[name]["samples"] = [*kept, *added]
        elif kept:
            now[name]["samples"] = kept
    SAMPLES.mkdir(exist_ok=True)
    path = SAMPLES / f"{protocol.WIRE}.json"
    path.write_text(json.dumps(now, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
