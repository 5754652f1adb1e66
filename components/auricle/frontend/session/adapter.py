"""JSON of the messages of a dialect. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from auricle.core.errors import ProtocolError
from auricle.frontend.audio.turn_detection import Silence
from auricle.frontend.link.words import WordTimes
from auricle.frontend.transport.request_errors import json_fault

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


# What the options of every dialect say of the audio and its text. No I/O.


@dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """What the protocols share; `encoding` is one of `audio.pcm.ENCODINGS`.

    `sample_rate` is in Hz, of each of the `channels`, which are sessions of their own. Without
    `silence` the server's endpointing applies. With `languages` each segment is in one of them.
    `words`: the times that words have. `warnings` are sentences on what has no effect.
    """

    encoding: str
    sample_rate: int
    channels: int = 1
    model: str | None = None
    language: str | None = None
    languages: tuple[str, ...] = ()
    context: str = ""
    partials: bool = False
    silence: Silence | None = None
    words: WordTimes = "grid"
    warnings: tuple[str, ...] = ()
