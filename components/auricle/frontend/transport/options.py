"""Reads a client's options by a table, which is a msgspec Struct. No I/O.

A field of the table is an option: its name, type, bounds and default. An error names the option,
quotes the value, and states the values that the table allows. URLs and forms have text in place
of numbers, switches and lists; it is converted first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from auricle.annotation.speakers.model import MOST_SPEAKERS
from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.config.frontend import MIN_SILENCE_MS
from auricle.core.errors import BadRequest, UnsupportedValue
from auricle.core.limits import CONTEXT, LANGUAGE, MODEL, check, fault
from auricle.core.sanitize import escaped, quoted
from auricle.protocol.sessions import MAX_CHUNK_MS, MIN_CHUNK_MS

T = TypeVar("T", bound=msgspec.Struct)
_LISTS = (inspect.ListType, inspect.VarTupleType)
_NOUNS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.BoolType, "true or false"),
    (inspect.StrType, "text"),
    (_LISTS, "a JSON list"),
    (inspect.StructType, "an object"),
)
# Text that can be sent on: no null character, and no half of a surrogate pair.
_PLAIN = r"\A[^\0\ud800-\udfff]*\Z"
# msgspec's messages for an unknown or missing field, and the path of a value.
_FIELD = re.compile(r"Object (contains|missing)[a-z ]* field `(.*?)`(?: - .*)?", re.DOTALL)
_AT = " - at `$"
_STEP = re.compile(r"\.([^.\[\]`]+)|\[(\d{1,6})\]")
# Eighteen digits: Python reads a number of many digits slowly.
_WHOLE = re.compile(r"\d{1,18}(?:\.0{1,9})?", re.ASCII)
_REAL = re.compile(r"[+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:e[+-]?\d{1,3})?", re.ASCII | re.I)
_table = cache(inspect.type_info)
SWITCHES: Mapping[str, bool] = {"true": True, "false": False}
LENIENT_SWITCHES: Mapping[str, bool] = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


def text(most: int) -> Meta:
    """Return the bounds of a text of at most `most` characters."""
    return Meta(max_length=most, pattern=_PLAIN)


def one_of(values: Iterable[str]) -> Meta:
    """Return the bounds of a text that is one of `values`."""
    known = tuple(values)
    pattern = rf"\A(?:{'|'.join(map(re.escape, known))})\Z"
    return Meta(pattern=pattern, extra={"values": known}, extra_json_schema={"enum": list(known)})


SampleRate = Annotated[int, Meta(ge=MIN_RATE, le=MAX_RATE)]  # Hz
ChunkMs = Annotated[int, Meta(ge=MIN_CHUNK_MS, le=MAX_CHUNK_MS)]
MaxSpeakers = Annotated[int, Meta(ge=1, le=MOST_SPEAKERS)]
Context = Annotated[str, text(CONTEXT)]
Language = Annotated[str, text(LANGUAGE)]
Model = Annotated[str, text(MODEL)]


@dataclass(frozen=True)
class Others:
    """Options of a protocol that have no effect here.

    `refused` has the reason why each cannot be switched on. `advisory` ones are accepted with a
    warning. Those in `repeated` may be given several times.
    """

    refused: Mapping[str, str] = field(default_factory=dict)
    advisory: Collection[str] = ()
    repeated: Collection[str] = ()

    def sifted(
        self, given: Mapping[str, Any], known: Collection[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the options that are `known`, and warnings on the others.

        Raises UnsupportedValue.
        """
        honoured: dict[str, Any] = {}
        warnings: list[str] = []
        for name, value in given.items():
            if name in known:
                honoured[name] = value
            elif name not in self.refused and name not in self.advisory:
                raise _unknown(name, known, UnsupportedValue)
            elif not switched_off(value):
                if name in self.refused:
                    raise UnsupportedValue(f"{name} is not supported: {self.refused[name]}", name)
                warnings.append(f"{name} has no effect")
        return honoured, warnings


def read(
    table: type[T],
    given: Mapping[str, Any],
    kind: type[BadRequest] = UnsupportedValue,
    switches: Mapping[str, bool] | None = None,
) -> T:
    """Return the options of a table. Raises `kind`.

    With `switches` text is converted, and an empty text leaves an option out. So does null, unless
    it is one of the option's values.
    """
    taken = converted(table, given, switches)
    try:
        return msgspec.convert(taken, table)
    except UnicodeEncodeError:  # of half a surrogate pair, in a name or in place of a known text
        return read(table, _encodable(given), kind, switches)
    except msgspec.ValidationError as error:
        # JSON lists are shown decoded.
        lists = {name: value for name, value in taken.items() if isinstance(value, list)}
        raise _refusal(str(error), table, {**given, **lists}, kind) from None


def converted(
    table: type[msgspec.Struct], given: Mapping[str, Any], switches: Mapping[str, bool] | None
) -> dict[str, Any]:
    """Return the options that were not left out, with text converted: see `read`."""
    return dict(_converted(_table(table), given, switches))


def read_query(
    table: type[T],
    given: Mapping[str, Any],
    others: Others,
    switches: Mapping[str, bool] = SWITCHES,
) -> tuple[T, list[str]]:
    """Return the options of a URL, and warnings on those without effect.

    Raises UnsupportedValue.
    """
    honoured, warnings = others.sifted(given, names(table))
    return read(table, honoured, switches=switches), warnings


@cache
def names(table: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names that clients use for the options of a table."""
    return tuple(_fields(_table(table)))


def gathered(pairs: Iterable[tuple[str, str]], repeated: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of a query by name: lists of those that may be given several times.

    Raises UnsupportedValue if another was given more than once.
    """
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        values[name].append(value)
    for name, several in values.items():
        if len(several) > 1 and name not in repeated:
            shown = escaped(name)
            raise UnsupportedValue(f"{shown} was given {len(several)} times", shown)
    return {name: several if name in repeated else several[0] for name, several in values.items()}


def switched_off(value: object) -> bool:
    """Whether a value, or each of a list of them, switches an option off."""
    if isinstance(value, list):
        return all(map(switched_off, value))
    return value in (None, False) or (isinstance(value, str) and value.lower() in ("", "false"))


def whole(value: str) -> int | None:
    """Return a whole number of at most eighteen digits, or None."""
    return int(value.partition(".")[0]) if _WHOLE.fullmatch(value) else None


def wrong(name: str, value: object, right: str) -> UnsupportedValue:
    """Return the error of a value that cannot be used; `right` describes the allowed values."""
    return UnsupportedValue(f"{name} {quoted(value)} cannot be used: it must be {right}", name)


# ── values that several protocols have ──────────────────────────────────────


def context_of(name: str, terms: Iterable[str], prompt: str = "") -> str:
    """Return the terms that a client expects, as context for the model.

    Raises UnsupportedValue, with the option's name, if it is too long.
    """
    context = " ".join(part for part in (prompt, ", ".join(terms)) if part)
    check(name, context, CONTEXT)
    return context


def least_silence(name: str, silence_ms: int, warnings: list[str]) -> int:
    """Return the silence, or the shortest that can end speech, with a warning."""
    if silence_ms < MIN_SILENCE_MS:
        warnings.append(
            f"{name} {silence_ms} is too short: speech ends after {MIN_SILENCE_MS} ms of silence"
        )
    return max(silence_ms, MIN_SILENCE_MS)


def _converted(kind: inspect.Type, value: Any, switches: Mapping[str, bool] | None) -> Any:
    """Convert text to an option's type; text that cannot be converted stays unchanged."""
    plain = _plain(kind, value)
    if isinstance(plain, inspect.StructType) and isinstance(value, Mapping):
        known = _fields(plain)
        return {
            name: _converted(known[name].type, one, switches) if name in known else one
            for name, one in value.items()
            if name not in known or not _left_out(known[name].type, one, switches)
        }
    if switches is None:
        return value
    if isinstance(plain, inspect.BoolType) and isinstance(value, str | int | float):
        return switches.get(str(value).lower(), value)
    if isinstance(plain, inspect.IntType) and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    found: Any = None
    if isinstance(plain, inspect.IntType):
        found = whole(value)
    elif isinstance(plain, inspect.FloatType) and _REAL.fullmatch(value):
        found = float(value)
    elif isinstance(plain, _LISTS):
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(value, type=list[Any])
    return value if found is None else found


def _left_out(kind: inspect.Type, value: object, switches: Mapping[str, bool] | None) -> bool:
    """Whether a value stands for none: see `read`."""
    if value == "":
        return switches is not None
    return value is None and not _takes_null(kind)


def _takes_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _takes_null(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_takes_null, kind.types))
    return isinstance(kind, inspect.NoneType)


def _encodable(value: Any) -> Any:
    """Return a value with question marks for halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(one) for name, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list) else value


# ── errors ──────────────────────────────────────────────────────────────────


def _refusal(
    message: str, table: type, given: Mapping[str, Any], kind: type[BadRequest]
) -> BadRequest:
    """Return the error for a message of msgspec's."""
    path = message.rpartition(_AT)[2] if _AT in message else ""
    at, value, parts = _found(_table(table), given, path)
    if field_error := _FIELD.fullmatch(message):
        name = ".".join((*parts, field_error[2]))
        if field_error[1] == "contains":
            return _unknown(name, _fields(_plain(at, value)), kind)
        return _error(f"{escaped(name)} is missing", escaped(name), kind)
    name = ".".join(parts)
    return _error(_sentence(_plain(at, value), value, name or "the message"), name or None, kind)


def _unknown(name: str, known: Collection[str], kind: type[BadRequest]) -> BadRequest:
    shown, supported = escaped(name), ", ".join(sorted(known))
    error = _error(f"{shown} is not supported; supported: {supported}", shown, kind)
    error.openai_code = "unknown_parameter"
    return error


def _error(message: str, name: str | None, kind: type[BadRequest]) -> BadRequest:
    error = kind(message)
    error.param = name
    return error


def _found(kind: inspect.Type, value: Any, path: str) -> tuple[inspect.Type, Any, list[str]]:
    """Return the type and the value at a path of msgspec's, and the names of the fields to it.

    A client may have made up the path, by an option of that name.
    """
    parts = []
    for name, index in (step.groups() for step in _STEP.finditer(path)):
        plain = _plain(kind, value)
        if isinstance(plain, inspect.StructType) and name in _fields(plain):
            parts.append(name)
            kind, value = _fields(plain)[name].type, value.get(name)
        elif isinstance(plain, inspect.UnionType) and isinstance(value, dict):
            # The tag that selects one of several objects.
            parts.append(name)
            tags = (one.tag for one in plain.types if isinstance(one, inspect.StructType))
            kind, value = inspect.LiteralType(tuple(tags)), value.get(name)
        elif index and isinstance(plain, _LISTS) and isinstance(value, list):
            kind, value = plain.item_type, next(iter(value[int(index) :]), None)
        else:
            break
    return kind, value, parts


def _fields(kind: inspect.Type) -> dict[str, inspect.Field]:
    """Return the fields of a table by the names that clients use, the tag included."""
    if not isinstance(kind, inspect.StructType):
        return {}
    found = {one.encode_name: one for one in kind.fields}
    if kind.tag_field is not None:
        tag = inspect.LiteralType((kind.tag,))
        found[kind.tag_field] = inspect.Field(kind.tag_field, kind.tag_field, tag)
    return found


def _plain(kind: inspect.Type, value: Any) -> inspect.Type:
    """Return a type without what marks it as optional or describes it.

    Of a union, return the type that the value has, if there is only one.
    """
    if isinstance(kind, inspect.Metadata):
        values = (kind.extra or {}).get("values")
        return _plain(kind.type, value) if values is None else inspect.LiteralType(values)
    if not isinstance(kind, inspect.UnionType):
        return kind
    kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    if len(kinds) == 1:
        return _plain(kinds[0], value)
    if isinstance(value, str):
        kinds = [one for one in kinds if isinstance(one, inspect.StrType)]
    elif isinstance(value, Mapping):
        structs = [one for one in kinds if isinstance(one, inspect.StructType)]
        kinds = [one for one in structs if value.get(one.tag_field) == one.tag]
    return kinds[0] if len(kinds) == 1 else kind


def _sentence(kind: inspect.Type, value: Any, name: str) -> str:
    """Return the error message for a value."""
    if isinstance(kind, inspect.StrType) and isinstance(value, str):
        most = len(value) if kind.max_length is None else kind.max_length
        # Of a text within objects the last name is enough.
        if (bad := fault(name.rpartition(".")[2], value, most)) is not None:
            return bad
    if isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
        return f"{name} has {len(value)} entries, at most {kind.max_length} are allowed"
    return str(wrong(name, value, _right(kind)))


def _right(kind: inspect.Type) -> str:
    """Describe a type and its bounds."""
    if isinstance(kind, inspect.LiteralType):
        values = tuple(map(str, kind.values))
        return " or ".join(values) if len(values) <= 2 else f"one of {', '.join(values)}"
    if isinstance(kind, inspect.DictType):  # msgspec does not name the value that is wrong
        return f"an object whose values are each {_right(kind.value_type)}"
    if isinstance(kind, inspect.UnionType):
        several = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return " or ".join(dict.fromkeys(map(_right, several)))
    noun = next((noun for types, noun in _NOUNS if isinstance(kind, types)), "another value")
    if not isinstance(kind, inspect.IntType | inspect.FloatType) or kind.ge is None:
        return noun
    least = f"{kind.ge:.10g}"
    return (
        f"{noun} of at least {least}"
        if kind.le is None
        else f"{noun} from {least} to {kind.le:.10g}"
    )
