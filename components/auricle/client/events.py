"""Events of a live session: the messages of docs/websocket.md, without `resume`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from auricle.core.errors import AuricleError
from auricle.protocol.stream import (
    Done,
    Final,
    Partial,
    Ready,
    Speakers,
    SpeechStarted,
    SpeechStopped,
    Translation,
    TurnPaused,
    TurnResumed,
    Words,
)

StreamEvent = (
    Ready
    | SpeechStarted
    | SpeechStopped
    | TurnPaused
    | TurnResumed
    | Partial
    | Final
    | Words
    | Speakers
    | Translation
    | Done
)
_KINDS = {kind.__struct_config__.tag for kind in StreamEvent.__args__}


def typed(message: Mapping[str, Any]) -> StreamEvent | None:
    """Return a server's message as an event; None for unknown messages of a newer server.

    Unknown fields are ignored. Raises AuricleError for a missing field or one of another type.
    """
    if message.get("type") not in _KINDS:
        return None
    try:
        event: StreamEvent = msgspec.convert(message, StreamEvent)
    except msgspec.ValidationError as error:
        raise AuricleError(f"the server sent a message of another form: {error}") from None
    return event


def plain(event: StreamEvent) -> dict[str, Any]:
    """Return an event as a JSON object, with its `type`."""
    return {"type": event.__struct_config__.tag, **_fields(event)}


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    found = {name: getattr(struct, name) for name in struct.__struct_fields__ if name != "resume"}
    for name, value in found.items():
        if isinstance(value, msgspec.Struct):
            found[name] = _fields(value)
        elif isinstance(value, tuple):
            found[name] = [_fields(part) for part in value]
    return found
