"""What is wrong with a client's JSON or form, in our words. No I/O.

The libraries that parse it say it in words of theirs, which change with their versions and
repeat what the client sent, whatever its length. Only what they are known to say is taken over.
"""

from __future__ import annotations

import re

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


def _field_fault(said: str, path: str | None, found: str, words: str) -> str:
    if not words:
        field = escaped(f"{path}.{found}" if path else found)
        return f"{field} is missing" if said.startswith("Object missing") else _unknown(field)
    name = escaped(path) if path else "the message"
    return words.format(name=name, found=quoted(found), type=found.replace("|", "or"))


def _unknown(field: str) -> str:
    return f"{field} is not supported"


def check_text(field: str, text: str | None, most: int, kind: type[AuricleError]) -> None:
    """Raise `kind`, naming the field, if its text cannot be taken."""
    if text is not None and (wrong := fault(field, text, most)) is not None:
        error = kind(wrong)
        error.param = field
        raise error
