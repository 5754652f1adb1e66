"""The messages between Vapi and a custom transcriber. No I/O. Names and fields are Vapi's."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.errors import AuricleError, ProtocolError, UnsupportedValue
from auricle.frontend.doors.field_errors import json_fault
from auricle.messages import Final, Partial
from auricle.quoting import escaped, quoted
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL, check, query_fields

# Who speaks on the first channel and on the second.
SPEAKERS = ("customer", "assistant")
_LONGEST = 8_192  # characters of the start message
_OPTIONS = ("language", "model", "context")


class Start(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="start"):
    """The first message; audio follows, with the channels interleaved."""

    sample_rate: int
    encoding: str = "linear16"
    container: str = "raw"
    channels: int = 2


@dataclass(frozen=True)
class Options:
    """What the transcriber's URL asks for."""

    language: str | None = None
    model: str | None = None
    context: str = ""


def parse_start(text: str | None) -> Start:
    """Parse the first message. Raises ProtocolError, or UnsupportedValue naming the field."""
    if text is None:
        raise ProtocolError("the start message must come before audio")
    if len(text) > _LONGEST:
        raise ProtocolError(f"the start message has at most {_LONGEST} characters, not {len(text)}")
    try:
        start = msgspec.json.decode(text, type=Start)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"not a start message of Vapi: {json_fault(error)}") from None
    for name, value, right in (
        ("encoding", start.encoding, "linear16"),
        ("container", start.container, "raw"),
    ):
        if value != right:
            raise UnsupportedValue(
                f"{name} {quoted(value)} cannot be used: it must be {right}", name
            )
    if not 1 <= start.channels <= len(SPEAKERS):
        raise UnsupportedValue(
            f"channels {quoted(start.channels)} cannot be used: it must be 1 or 2", "channels"
        )
    if not MIN_RATE <= start.sample_rate <= MAX_RATE:
        raise UnsupportedValue(
            f"sampleRate {quoted(start.sample_rate)} cannot be used: it must be from {MIN_RATE} to "
            f"{MAX_RATE}",
            "sampleRate",
        )
    return start


def parse_options(query: str) -> Options:
    """Parse the query of the transcriber's URL. Raises BadRequest, naming the option."""
    given = query_fields(query)
    for name in given:
        if name not in _OPTIONS:
            raise UnsupportedValue(
                f"{escaped(name)} is not supported; supported: {', '.join(_OPTIONS)}", escaped(name)
            )
    options = Options(
        given.get("language") or None, given.get("model") or None, given.get("context", "")
    )
    check("language", options.language, LANGUAGE)
    check("model", options.model, MODEL)
    check("context", options.context, CONTEXT)
    return options


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
