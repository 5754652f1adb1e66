"""The event of who spoke in a segment, from processor to frontend."""

from __future__ import annotations

import msgspec

from auricle.messages.stream import SpeakerPart
from auricle.messages.word_source import WordSource


class Speakers(msgspec.Struct, frozen=True, tag=True):
    """Who spoke in a segment whose `Final` was sent before. It is never changed.

    The parts are in order; their `text`, joined, is the segment's. `source` says by what times of
    words the text was divided. `missing` says why there are no parts. `state` is for
    `ResumePoint.speakers`, from here on.
    """

    segment: int
    parts: tuple[SpeakerPart, ...] = ()
    source: WordSource | None = None
    missing: str = ""
    state: bytes = b""
