"""Bounds on clients' text. They are checked first, before any other processing."""

from __future__ import annotations

from urllib.parse import parse_qsl

from auricle.core.errors import BadRequest, UnsupportedValue
from auricle.core.sanitize import escaped

# Characters, by field. Field names and values of other fields are quoted only in part.
CONTEXT = 2_000  # `context`, called `prompt` in some protocols
LANGUAGE = 32
MODEL = 256
FILE_NAME = 255
EVENT_ID = 512
API_KEY = 512
QUERY = 2_048
RESUME_TOKEN = 65_536  # a segment of 300 s needs about 30,000
OFFERED_PROTOCOLS = 2_048  # the header Sec-WebSocket-Protocol


def fault(field: str, text: str, most: int) -> str | None:
    """Return the fault of a field's text, as a sentence for the client; None if valid."""
    if len(text) > most:
        return f"{field} has {len(text)} characters, at most {most} are allowed"
    if "\0" in text:
        return f"{field} has a null character at position {text.index(chr(0))}"
    if (at := _surrogate(text)) is not None:
        return f"{field} is not valid Unicode: half a surrogate pair at position {at}"
    return None


def check(field: str, text: str | None, most: int) -> None:
    """Raise UnsupportedValue, naming the field, if its text is invalid."""
    if text is not None and (wrong := fault(field, text, most)) is not None:
        raise UnsupportedValue(wrong, field)


def query_fields(query: str) -> dict[str, str]:
    """Parse a URL's query string. Raises BadRequest if it is too long."""
    return dict(query_pairs(query))


def query_pairs(query: str) -> list[tuple[str, str]]:
    """Parse a query string with repeated fields. Raises BadRequest if it is too long."""
    if len(query) > QUERY:
        raise BadRequest(
            f"the query string has {len(query)} characters, at most {QUERY} are allowed"
        )
    return parse_qsl(query, keep_blank_values=True)


def file_name(name: str | None) -> str:
    """Return an uploaded file's name for messages. Raises UnsupportedValue if it is too long."""
    check("the file's name", name, FILE_NAME)
    return escaped(name) if name else "the file"


def _surrogate(text: str) -> int | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
