"""What a live session tells a program. The messages are those of docs/websocket.md, typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from auricle.errors import AuricleError


class Usage(msgspec.Struct, frozen=True):
    """What the session has cost, counted on its last connection, but for `audio_ms`."""

    audio_ms: int = 0
    decodes: int = 0
    decodes_skipped: int = 0
    windows_encoded: int = 0
    blocks_convolved: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    embedding_bytes_read: int = 0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The session has begun. It comes once, however many connections the session takes."""

    session: str
    model: str
    chunk_ms: int


class SpeechStarted(msgspec.Struct, frozen=True, tag="speech_started"):
    """Speech began at `at_ms`."""

    at_ms: int


class SpeechStopped(msgspec.Struct, frozen=True, tag="speech_stopped"):
    """Speech ended at `at_ms`."""

    at_ms: int


class TurnPaused(msgspec.Struct, frozen=True, tag="turn_paused"):
    """Speech paused at `at_ms`, and with this probability the turn is over; with `eagerness` only.

    `TurnResumed` or `SpeechStopped` follows.
    """

    at_ms: int
    probability: float


class TurnResumed(msgspec.Struct, frozen=True, tag="turn_resumed"):
    """The speaker goes on, at `at_ms`: the turn that had paused is not over."""

    at_ms: int


class Partial(msgspec.Struct, frozen=True, tag="partial"):
    """The text of the open segment: `committed` only grows, `partial` follows it and may change."""

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str


class Final(msgspec.Struct, frozen=True, tag="final"):
    """The final text of one segment, which begins with what was committed of it."""

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str


class Word(msgspec.Struct, frozen=True):
    """A word and when it was said. `word` has letters and digits only; the `text` of all words of
    a segment, joined, is the segment's text. `confidence` is how sure the model was of it, from 0
    to 1; None where that is not known."""

    word: str
    text: str
    start_ms: int
    end_ms: int
    confidence: float | None = None


class Words(msgspec.Struct, frozen=True, tag="words"):
    """The words of a segment whose `Final` came before.

    `source` is `aligned`, or `commit_grid`, which is as coarse as decodes are apart. `missing` says
    why there are no aligned times; without a `source` there are no words. `confidence` is the mean
    of the words'; None where one is not known.
    """

    segment: int
    words: tuple[Word, ...] = ()
    source: str | None = None
    missing: str | None = None
    confidence: float | None = None


class SpeakerPart(msgspec.Struct, frozen=True):
    """A speaker, counted from 1, and what they said between two times; `text` may be empty."""

    speaker: int
    start_ms: int
    end_ms: int
    text: str


class Speakers(msgspec.Struct, frozen=True, tag="speakers"):
    """Who spoke in a segment whose `Final` came before. It never changes.

    The `text` of all parts, joined, is the segment's. `source` says by what times of words it is
    divided, as in `Words`. `missing` says why there are no parts.
    """

    segment: int
    parts: tuple[SpeakerPart, ...] = ()
    source: str | None = None
    missing: str | None = None


class Translation(msgspec.Struct, frozen=True, tag="translation"):
    """The translation of a segment into `language`: `committed` only grows, `partial` follows it
    and may change.

    With `final` it is complete, and nothing follows. `missing` says why it is not complete, though
    nothing follows: what was committed stays.
    """

    segment: int
    language: str
    committed: str
    partial: str
    final: bool
    missing: str | None = None


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The session's last event: the texts of all segments, joined by spaces."""

    text: str
    usage: Usage


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
    """Return a server's message as an event; None for a kind that a newer server may send.

    Fields that this version does not know are left out. Raises AuricleError if one that it knows is
    missing or of another type.
    """
    if message.get("type") not in _KINDS:
        return None
    try:
        event: StreamEvent = msgspec.convert(message, StreamEvent)
    except msgspec.ValidationError as error:
        raise AuricleError(f"the server sent a message of another form: {error}") from None
    return event


def plain(event: StreamEvent) -> dict[str, Any]:
    """Return an event as JSON has it, with its `type`."""
    found: dict[str, Any] = msgspec.to_builtins(event)
    return found
