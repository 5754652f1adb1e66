"""The messages between Vapi and a custom transcriber. No I/O. Names and fields are Vapi's."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from auricle.errors import AuricleError, ProtocolError, UnsupportedValue
from auricle.frontend.doors.field_errors import json_fault
from auricle.frontend.doors.options import (
    Context,
    Language,
    Model,
    Others,
    SampleRate,
    read,
    read_query,
)
from auricle.messages.sessions import Final, Partial
from auricle.text_bounds import query_fields

# Who speaks on the first channel and on the second.
SPEAKERS = ("customer", "assistant")
_LONGEST = 8_192  # characters of the start message
_NO_START = "not a start message of Vapi"


class Start(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="start"):
    """The first message; audio follows, with the channels interleaved."""

    sample_rate: SampleRate
    encoding: Literal["linear16"] = "linear16"
    container: Literal["raw"] = "raw"
    channels: Literal[1, 2] = 2


class Options(msgspec.Struct, frozen=True):
    """What the transcriber's URL asks for."""

    language: Language = ""
    model: Model = ""
    context: Context = ""


def parse_start(text: str | None) -> Start:
    """Parse the first message. Raises ProtocolError, or UnsupportedValue naming the field."""
    if text is None:
        raise ProtocolError("the start message must come before audio")
    if len(text) > _LONGEST:
        raise ProtocolError(f"the start message has at most {_LONGEST} characters, not {len(text)}")
    try:
        return read(Start, msgspec.json.decode(text, type=dict[str, Any]))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"{_NO_START}: {json_fault(error)}") from None
    except UnsupportedValue as error:
        if error.param != "type":
            raise
        raise ProtocolError(f"{_NO_START}: {error}") from None


def parse_options(query: str) -> Options:
    """Parse the query of the transcriber's URL. Raises BadRequest, naming the option."""
    return read_query(Options, query_fields(query), Others())[0]


def response(event: Partial | Final, speaker: str) -> str:
    """Return what a speaker has said; empty if that is nothing.

    Each partial text replaces the one before, until a final one.
    """
    is_final = isinstance(event, Final)
    text = event.text if isinstance(event, Final) else (event.committed + event.partial).strip()
    if not text:
        return ""
    message = {
        "type": "transcriber-response",
        "transcription": text,
        "channel": speaker,
        "transcriptType": "final" if is_final else "partial",
    }
    return msgspec.json.encode(message).decode()


def error_message(error: AuricleError) -> str:
    """Return the last message of a session that failed."""
    message: dict[str, object] = {"type": "error", "error": error.for_client, "code": error.code}
    if error.retry_after_seconds:
        message["retryAfterSeconds"] = error.retry_after_seconds
    return msgspec.json.encode(message).decode()
