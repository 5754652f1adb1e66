"""Divides a segment's text among the turns of its speakers. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.messages.diarizing import SpeakerTurn
from auricle.messages.stream import SpeakerPart
from auricle.processor.word_times import grid

_SEPARATE = SAMPLE_RATE // 2  # silence in which a turn of one speaker ends
Said = tuple[str, float]  # a piece of the text, and the session's sample at its middle


def spoken_parts(
    turns: Sequence[SpeakerTurn], start: int, said: Sequence[Said], text: str
) -> tuple[SpeakerPart, ...]:
    """Return who spoke when and what, for turns of a segment that begins at session sample `start`.

    `said` is `text` in pieces, in order; each belongs to the turn nearest to it. Without pieces,
    as where the text is punctuation only, the first turn has the text.
    """
    joined = _joined(turns)
    texts = [""] * len(joined)
    for piece, at in said or [(text, 0.0)]:
        texts[_nearest(joined, at - start)] += piece
    return tuple(
        SpeakerPart(
            turn.speaker,
            milliseconds(start + turn.start),
            milliseconds(start + turn.end),
            what,
        )
        for turn, what in zip(joined, texts, strict=True)
    )


def grid_times(
    pieces: Sequence[str], heard: Sequence[tuple[int, int]], start: int, samples: int
) -> list[Said]:
    """Return the pieces of a text with the times of the decodes by which they were there.

    `heard` and `samples` are as in `word_times.grid`.
    """
    ends = np.cumsum([len(piece.encode()) for piece in pieces])
    middles = ends - np.diff(ends, prepend=0) / 2
    times = grid(heard, int(ends[-1]), samples)(middles)
    return [(piece, start + float(at)) for piece, at in zip(pieces, times, strict=True)]


def _joined(turns: Sequence[SpeakerTurn]) -> list[SpeakerTurn]:
    """Return turns without the short silences within them."""
    found: list[SpeakerTurn] = []
    for _, own in groupby(turns, lambda turn: turn.speaker):
        first, *rest = own
        for turn in rest:
            if turn.start - first.end < _SEPARATE:
                first = SpeakerTurn(turn.speaker, first.start, turn.end)
            else:
                found.append(first)
                first = turn
        found.append(first)
    return found


def _nearest(turns: Sequence[SpeakerTurn], at: float) -> int:
    """Return the turn in which `at` lies, or the nearest, the earlier of two."""
    return min(range(len(turns)), key=lambda n: max(turns[n].start - at, at - turns[n].end, 0))
