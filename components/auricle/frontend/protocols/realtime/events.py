"""The events of the realtime protocol, and their JSON. No I/O.

Names and fields are OpenAI's, except `auricle.transcription.partial`, which is an extension.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from auricle.core.errors import AuricleError, ProtocolError, UnsupportedValue
from auricle.core.limits import EVENT_ID
from auricle.frontend.link.words import entries
from auricle.frontend.transport.request_errors import check_text, error_body, json_fault
from auricle.protocol.sessions import ScoredToken

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class SessionUpdate(msgspec.Struct, frozen=True, tag="session.update"):
    """Change the fields in `session`, for turns that begin later."""

    session: dict[str, Any]
    event_id: str | None = None


class Append(msgspec.Struct, frozen=True, tag="input_audio_buffer.append"):
    """Append audio, which is base64 in JSON and decoded here."""

    audio: bytes
    event_id: str | None = None


class Commit(msgspec.Struct, frozen=True, tag="input_audio_buffer.commit"):
    """End the turn."""

    event_id: str | None = None


class Clear(msgspec.Struct, frozen=True, tag="input_audio_buffer.clear"):
    """Discard the audio of the open turn."""

    event_id: str | None = None


class _Named(msgspec.Struct, frozen=True):
    event_id: Annotated[str, Meta(max_length=EVENT_ID)] | None = None


ClientEvent = SessionUpdate | Append | Commit | Clear
ServerEvent = dict[str, Any]
_EVENT: Any = ClientEvent  # a union, which `convert` takes but whose type it cannot express
_JSON: msgspec.json.Decoder[ClientEvent] = msgspec.json.Decoder(ClientEvent)
# Audio is long, everything else is short: a large `session.update` would cost far more to check
# than to send. In characters; the longest prompt has 12,000 as JSON escapes.
_LONGEST_OTHER = 1 << 15
_NAMED: msgspec.json.Decoder[_Named] = msgspec.json.Decoder(_Named)
_APPEND: msgspec.json.Decoder[Append] = msgspec.json.Decoder(Append)
_TYPES = ", ".join(
    str(kind.__struct_config__.tag) for kind in (SessionUpdate, Append, Commit, Clear)
)


def parse_event(message: str | bytes | dict[str, Any]) -> ClientEvent:
    """Parse a client event. Raises ProtocolError, naming the supported events."""
    try:
        if isinstance(message, dict):
            event: ClientEvent = msgspec.convert(message, _EVENT)
        else:
            event = (_JSON if len(message) <= _LONGEST_OTHER else _APPEND).decode(message)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is the first too
        wrong = json_fault(error)
        if not isinstance(message, dict) and len(message) > _LONGEST_OTHER:
            raise ProtocolError(
                f"an event of more than {_LONGEST_OTHER} characters must be "
                f"input_audio_buffer.append: {wrong}"
            ) from None
        raise ProtocolError(f"not an event that is supported ({_TYPES}): {wrong}") from None
    check_text("event_id", event.event_id, EVENT_ID, ProtocolError)
    return event


def name_of(message: str | bytes | dict[str, Any]) -> str | None:
    """Return the `event_id` of an event that `parse_event` refuses; None without a valid one."""
    try:
        if isinstance(message, dict):
            return msgspec.convert(message, _Named).event_id
        return _NAMED.decode(message).event_id
    except (msgspec.DecodeError, RecursionError):
        return None


def encode(event: ServerEvent) -> str:
    return msgspec.json.encode(event).decode()


def server_event(kind: str, **fields: Any) -> ServerEvent:
    """Return an event of type `kind` with a new id."""
    return {"type": kind, "event_id": f"event_{uuid.uuid4().hex}", **fields}


def error_event(error: AuricleError, client_event: str | None = None) -> ServerEvent:
    """Return an `error` event. `client_event` is the id of the event that caused it, if known.

    The session continues unless the connection is closed.
    """
    return server_event("error", error={**_error(error), "event_id": client_event})


def _error(error: AuricleError) -> dict[str, Any]:
    body: Any = error_body(error)["error"]
    return {**body, "code": error.openai_code or error.code}


def delta(item: str, text: str) -> ServerEvent:
    """Return committed text, to be appended to the deltas sent before."""
    return server_event(f"{_TRANSCRIPTION}.delta", item_id=item, content_index=0, delta=text)


def partial(item: str, text: str) -> ServerEvent:
    """Return the text that follows the deltas and may still change. It replaces the last one."""
    return server_event(
        "auricle.transcription.partial", item_id=item, content_index=0, partial=text
    )


def segment(item: str, number: int, text: str, start_ms: int, end_ms: int) -> ServerEvent:
    """Return a part of the turn whose text is final. Positions are relative to the session."""
    return server_event(
        f"{_TRANSCRIPTION}.segment",
        item_id=item,
        content_index=0,
        id=f"seg_{item}_{number}",
        speaker="",
        text=text,
        start=start_ms / 1000,
        end=end_ms / 1000,
    )


def completed(
    item: str, text: str, seconds: float, scores: Sequence[ScoredToken] | None = None
) -> ServerEvent:
    """Return the turn's whole text: its deltas, joined. `seconds` is the turn's duration.

    `scores` are its tokens if they were asked for; without any if they are not known.
    """
    logprobs: dict[str, Any] = {} if scores is None else {"logprobs": entries(scores)}
    return server_event(
        f"{_TRANSCRIPTION}.completed",
        item_id=item,
        content_index=0,
        transcript=text,
        usage={"type": "duration", "seconds": round(seconds, 3)},
        **logprobs,
    )


def failed(item: str, error: AuricleError) -> ServerEvent:
    """Return the event of a turn that failed. The session continues."""
    return server_event(
        f"{_TRANSCRIPTION}.failed", item_id=item, content_index=0, error=_error(error)
    )


def empty_commit(fault: str) -> UnsupportedValue:
    """Return the error of a commit without a turn."""
    error = UnsupportedValue(f"nothing to commit: {fault}")
    error.openai_code = "input_audio_buffer_commit_empty"
    return error
