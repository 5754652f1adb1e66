"""The realtime protocol's messages. Pure: JSON or plain objects in, typed events out.

Names and fields are OpenAI's; `auricle.transcription.partial` is ours.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from auricle.errors import AuricleError, ProtocolError, UnsupportedValue
from auricle.frontend.http_errors import error_body

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class SessionUpdate(msgspec.Struct, frozen=True, tag="session.update"):
    """Change what `session` names; applies to turns that begin later."""

    session: dict[str, Any]
    event_id: str | None = None


class Append(msgspec.Struct, frozen=True, tag="input_audio_buffer.append"):
    """More audio: `audio` is base64."""

    audio: bytes
    event_id: str | None = None


class Commit(msgspec.Struct, frozen=True, tag="input_audio_buffer.commit"):
    """The turn ends here."""

    event_id: str | None = None


class Clear(msgspec.Struct, frozen=True, tag="input_audio_buffer.clear"):
    """Forget the audio of the turn that is open."""

    event_id: str | None = None


ClientEvent = SessionUpdate | Append | Commit | Clear
ServerEvent = dict[str, Any]
_EVENT: Any = ClientEvent  # a union, which `convert` takes but whose type it cannot express
_JSON: msgspec.json.Decoder[ClientEvent] = msgspec.json.Decoder(ClientEvent)
_TYPES = ", ".join(
    str(kind.__struct_config__.tag) for kind in (SessionUpdate, Append, Commit, Clear)
)


def parse_event(message: str | bytes | dict[str, Any]) -> ClientEvent:
    """Raises ProtocolError saying what would be right."""
    try:
        if isinstance(message, dict):
            converted: ClientEvent = msgspec.convert(message, _EVENT)
            return converted
        return _JSON.decode(message)
    except msgspec.DecodeError as error:  # ValidationError is one
        raise ProtocolError(f"not an event that is supported ({_TYPES}): {error}") from None


def encode(event: ServerEvent) -> str:
    """As JSON text."""
    return msgspec.json.encode(event).decode()


def server_event(kind: str, **fields: Any) -> ServerEvent:
    """An event with an id of its own."""
    return {"type": kind, "event_id": f"event_{uuid.uuid4().hex}", **fields}


def error_event(error: AuricleError, client_event: str | None = None) -> ServerEvent:
    """`error`: the session goes on unless the connection is closed."""
    return server_event("error", error={**_error(error), "event_id": client_event})


def _error(error: AuricleError) -> dict[str, Any]:
    body: Any = error_body(error)["error"]
    return dict(body)


def delta(item: str, text: str) -> ServerEvent:
    """Committed text that follows what was sent before."""
    return server_event(f"{_TRANSCRIPTION}.delta", item_id=item, content_index=0, delta=text)


def partial(item: str, text: str) -> ServerEvent:
    """What follows the deltas now, and may still change; replaces the one before."""
    return server_event(
        "auricle.transcription.partial", item_id=item, content_index=0, partial=text
    )


def segment(item: str, number: int, text: str, start_ms: int, end_ms: int) -> ServerEvent:
    """A part of the turn whose text is final; seconds of the session's audio."""
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


def completed(item: str, text: str, seconds: float) -> ServerEvent:
    """The turn's whole text: its deltas, joined."""
    return server_event(
        f"{_TRANSCRIPTION}.completed",
        item_id=item,
        content_index=0,
        transcript=text,
        usage={"type": "duration", "seconds": round(seconds, 3)},
    )


def failed(item: str, error: AuricleError) -> ServerEvent:
    """This turn has no more text; the session goes on."""
    return server_event(
        f"{_TRANSCRIPTION}.failed", item_id=item, content_index=0, error=_error(error)
    )


def empty_commit(milliseconds: int) -> UnsupportedValue:
    """The error of a commit without audio."""
    return UnsupportedValue(
        f"the input audio buffer holds {milliseconds} ms; a turn needs at least 100 ms of audio"
    )
