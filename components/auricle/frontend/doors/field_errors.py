"""What is wrong with a client's JSON or form, in our words. No I/O.

The libraries that parse it say it in words of theirs, which change with their versions and
repeat what the client sent, whatever its length. Only what they are known to say is taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from auricle.errors import AuricleError
from auricle.quoting import escaped, quoted
from auricle.text_bounds import fault

_PATH = re.compile(r"(.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_PLACE = re.compile(r".* \(byte (\d+)\)")
# What msgspec says of a field, and our words; `{name}` is the field's path.
_JSON = (
    (r"Object (?:missing required|contains unknown) field `(.*)`", ""),
    (r"Invalid value '(.*)'", "{name} {found} is not supported"),
    (r"Expected `([\w |]+)`(?:, got `\w+`)?", "{name} must be {type}"),
    (r"Invalid base64 encoded string()", "{name} is not base64"),
    (r".*out of range()", "{name} is too large a number"),
)


def json_fault(error: msgspec.DecodeError | RecursionError) -> str:
    """Return what is wrong with a JSON message that msgspec refused."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        at = _PLACE.fullmatch(str(error))
        return "it is not valid JSON" + (f" (byte {at[1]})" if at else "")
    matched = _PATH.fullmatch(str(error))
    said, path = (matched[1], matched["path"]) if matched else ("", None)
    for pattern, words in _JSON:
        if found := re.fullmatch(pattern, said, re.DOTALL):
            return _field_fault(said, path, found[1], words)
    return "it has a value that cannot be used"


def json_field(error: msgspec.DecodeError | RecursionError) -> str | None:
    """Return the path of the field that msgspec refused a JSON message for, if it was one."""
    if not isinstance(error, msgspec.ValidationError):
        return None
    matched = _PATH.fullmatch(str(error))
    said, path = (matched[1], matched["path"]) if matched else ("", None)
    found = re.fullmatch(_JSON[0][0], said, re.DOTALL)
    name = ".".join(part for part in (path, found and found[1]) if part)
    return escaped(name) if name else None


def _field_fault(said: str, path: str | None, found: str, words: str) -> str:
    if not words:
        field = escaped(f"{path}.{found}" if path else found)
        return f"{field} is missing" if said.startswith("Object missing") else _unknown(field)
    name = escaped(path) if path else "the message"
    return words.format(name=name, found=quoted(found), type=found.replace("|", "or"))


def _unknown(field: str) -> str:
    return f"{field} is not supported"


# What pydantic calls an error, and our words for it; `ctx` holds the bounds of the model.
_FORM: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "string_type": lambda _: "must be text",
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "int_parsing_size": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "finite_number": lambda _: "must be a number",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']:g}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']:g}",
    "literal_error": lambda ctx: f"must be {ctx['expected']}",
    "union_tag_invalid": lambda ctx: f"must have a type of {ctx['expected_tags']}",
    "union_tag_not_found": lambda _: "needs a type",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "dict_type": lambda _: "must be an object",
    "list_type": lambda _: "must be a list",
    "tuple_type": lambda _: "must be a list",
    "too_long": lambda ctx: f"must have at most {ctx['max_length']} entries",
    "none_required": lambda _: "must be null",
}


def form_fault(name: str, error: Mapping[str, Any], supported: str = "") -> str:
    """Return what is wrong with the field `name`, of which pydantic says `error`.

    `supported` lists the fields that there are, for a field that there is not.
    """
    field, kind = escaped(name), str(error["type"])
    if kind == "missing":
        return f"{field} is missing"
    if kind == "extra_forbidden":
        return _unknown(field) + (f"; supported: {supported}" if supported else "")
    context = error.get("ctx") or {}
    if kind == "value_error" and isinstance(context.get("error"), FieldError):
        return str(context["error"])
    words = _FORM.get(kind)
    why = f": it {words(context)}" if words else ""
    return f"{field} {quoted(error['input'])} cannot be used{why}"


class FieldError(ValueError):
    """What a check of ours says within pydantic's, in words for the client."""


def bounded(field: str, most: int) -> Callable[[str], str]:
    """Return a check, for pydantic's `AfterValidator`, of a field's length and characters."""

    def check(text: str) -> str:
        if (wrong := fault(field, text, most)) is not None:
            raise FieldError(wrong)
        return text

    return check


def check_text(field: str, text: str | None, most: int, kind: type[AuricleError]) -> None:
    """Raise `kind`, naming the field, if its text cannot be taken."""
    if text is not None and (wrong := fault(field, text, most)) is not None:
        error = kind(wrong)
        error.param = field
        raise error
