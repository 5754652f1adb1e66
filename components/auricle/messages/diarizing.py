"""Messages between processor and diarize worker."""

from __future__ import annotations

import msgspec


class DiarizeRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → diarize worker; answered by `DiarizeReply`.

    `pcm` is a segment, 16 kHz mono int16, little-endian. `state` is that of the reply for the
    session's segment before, empty in the first. The session has `most_speakers` at most, counted
    from 1. `background` requests yield to live ones.
    """

    session: str
    tenant: str
    pcm: bytes
    state: bytes
    most_speakers: int
    background: bool = False
    trace: str = ""


class SpeakerTurn(msgspec.Struct, frozen=True):
    """`speaker` speaks from `start` to `end`, samples of the segment."""

    speaker: int
    start: int
    end: int


class DiarizeReply(msgspec.Struct, frozen=True, tag=True):
    """Who spoke when: turns in order, none overlapping; none if nobody was heard.

    `state` is what the session's next request must have. It and the turns depend on the request
    and the speaker model only, so that a request may be made again anywhere.
    """

    turns: tuple[SpeakerTurn, ...]
    state: bytes
