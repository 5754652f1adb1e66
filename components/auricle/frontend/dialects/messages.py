"""JSON of the messages of a dialect. No I/O."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from auricle.errors import ProtocolError
from auricle.frontend.doors.field_errors import json_fault

Reply = dict[str, Any]
M = TypeVar("M")
LONGEST = 8_192  # characters of a client's text message


def decoded(text: str, messages: msgspec.json.Decoder[M], names: str) -> M:
    """Decode a client's text message. Raises ProtocolError, with `names` of what is supported."""
    if len(text) > LONGEST:
        raise ProtocolError(f"a text message has at most {LONGEST} characters, not {len(text)}")
    try:
        return messages.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(
            f"not a message that is supported ({names}): {json_fault(error)}"
        ) from None


def encode(reply: Reply) -> str:
    """Return the message as JSON text."""
    return msgspec.json.encode(reply).decode()
