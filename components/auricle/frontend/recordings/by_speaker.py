"""Divides a recording's segments by who speaks. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.alignment.words import divided
from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.recordings.transcriber import Segment
from auricle.messages.stream import Word


@dataclass(frozen=True)
class Saying:
    """What a speaker, counted from 1, says at a time; None: nobody knows who.

    Times are in milliseconds of the recording. `words` are those with times.
    """

    speaker: int | None
    start_ms: int
    end_ms: int
    text: str
    words: tuple[Word, ...]


def by_speaker(segment: Segment) -> list[Saying]:
    """Return who says what, in order; the `text` of all, joined, is the segment's.

    A segment whose speakers are not known is one saying.
    """
    words, turns = segment.words.words, segment.speakers.turns
    if not turns:
        start, end = (at * 1000 // SAMPLE_RATE for at in (segment.start, segment.end))
        return [Saying(None, start, end, segment.text, words)]
    shares = divided([word.text for word in words], [turn.text for turn in turns])
    return [
        Saying(turn.speaker, turn.start_ms, turn.end_ms, turn.text, words[own])
        for turn, own in zip(turns, shares, strict=True)
    ]
