"""Every option of every section, as the settings' own declarations say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    IPv4Address: "IPv4 address",
    IPv4Network: "IPv4 network",
    IPv6Network: "IPv6 network",
}
# By the end of the name, which is the unit of settings that have one.
_UNITS = {
    "bytes_per_second": "bytes/s",
    "tokens_per_second": "tokens/s",
    "packets_per_second": "packets/s",
    "channel_rate": "samples/s",
    "seconds": "s",
    "hours": "h",
    "ms": "ms",
    "gib": "GiB",
    "bytes": "bytes",
    "tokens": "tokens",
    "characters": "characters",
    "windows": "windows",
    "slots": "slots",
    "blocks": "blocks",
    "share": "share",
}


_ARTICLES = {"IPv4": "an ", "whole": "a ", "number": "a ", "path": "a ", "list": "a "}


class _Nothing(Enum):
    HERE = 0


@dataclass(frozen=True)
class Option:
    """One key of a section; keys of nested objects have a dot, as `encode.minimum`.

    `takes` is the type in words, `bounds` what its value may be, empty if anything; `default` is
    the value itself.
    """

    key: str
    takes: str
    bounds: str
    default: object
    description: str

    @property
    def unit(self) -> str:
        """The unit that the name ends in; empty without one."""
        name = self.key.rpartition(".")[2]
        if self.takes.startswith(("true", "text", "one of", "path")):
            return ""
        return next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(f"_{end}")), "")

    @property
    def right(self) -> str:
        """The valid values, in words that may follow a verb."""
        article = next((a for begin, a in _ARTICLES.items() if self.takes.startswith(begin)), "")
        return f"{article}{self.takes}{', ' if self.bounds else ''}{self.bounds}"


def options(kind: type[BaseModel]) -> dict[str, Option]:
    """Return the options of a section by key, in the order of their declaration."""
    return {option.key: option for option in _options(kind, "", _Nothing.HERE)}


def _options(kind: type[BaseModel], prefix: str, defaults: object) -> Iterator[Option]:
    for name, field in kind.model_fields.items():
        default = getattr(defaults, name) if defaults is not _Nothing.HERE else field.default
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _options(annotation, f"{prefix}{name}.", default)
        else:
            bounds = _bounds(field.metadata)
            takes, description = _words(annotation), _described(field)
            yield Option(f"{prefix}{name}", takes, bounds, default, description)


def _described(field: FieldInfo) -> str:
    return (field.description or "").strip()


def _words(annotation: Any) -> str:
    """Return a type in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [one for part in arguments[1:] for one in getattr(part, "metadata", [part])]
        return ", ".join(filter(None, (_words(arguments[0]), _bounds(inner))))
    if origin is Literal:
        return "one of " + ", ".join(str(value) for value in arguments)
    if origin is tuple:
        return f"list; each: {_words(arguments[0])}"
    if origin in (Union, UnionType):
        parts = [_words(part) for part in arguments if part is not NoneType]
        return " or ".join([*parts, *(["null"] if NoneType in arguments else [])])
    return _TYPES[annotation]


def _bounds(metadata: list[Any]) -> str:
    constraints = {type(one): one for one in metadata}
    least, most = constraints.pop(Ge, None), constraints.pop(Le, None)
    if least is not None and most is not None:
        return f"{least.ge} to {most.le}"
    words = [f"at least {least.ge}"] if least is not None else []
    for kind, one in constraints.items():
        if kind is Gt:
            words.append(f"more than {one.gt}")
        elif kind is Lt:
            words.append(f"less than {one.lt}")
        elif kind is MinLen:
            words.append("not empty")
        elif pattern := getattr(one, "pattern", None):
            words.append(f"of the form `{pattern}`")
    return ", ".join([*words, *([f"at most {most.le}"] if most is not None else [])])
