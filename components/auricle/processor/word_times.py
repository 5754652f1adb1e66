"""When the words of a segment were said: from the aligner's answer, or from the commit grid.

No I/O. The commit grid is what decodes tell by the way: a token that has been there since the
decode of the first two seconds was said within them. Between the ends of decodes, time is shared
out by the length of the text. It is as coarse as decodes are apart, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from auricle.alignment.words import Piece
from auricle.audio.pcm import milliseconds
from auricle.messages.sessions import Words
from auricle.messages.stream import Word

_LONGEST_CHARACTER = 4  # bytes

Confidences = Sequence[float | None]


def aligned(
    segment: int,
    start: int,
    split: Sequence[Piece],
    times_ms: Sequence[int],
    confidences: Confidences,
) -> Words:
    """Return words with the aligner's times, in milliseconds from the segment's start.

    `start` is the session sample at which the segment begins.
    """
    begin = milliseconds(start)
    words = tuple(
        Word(
            word=piece.word,
            text=piece.text,
            start_ms=begin + times_ms[2 * at],
            end_ms=begin + times_ms[2 * at + 1],
            confidence=confidence,
        )
        for at, (piece, confidence) in enumerate(zip(split, confidences, strict=True))
    )
    return Words(segment, words, "aligned")


def commit_grid(
    start: int,
    samples: int,
    split: Sequence[Piece],
    heard: Sequence[tuple[int, int]],
    confidences: Confidences,
) -> tuple[Word, ...]:
    """Return words with the times of the decodes by which they were there.

    `heard` and `samples` are as in `grid`.
    """
    total = sum(len(piece.text.encode()) for piece in split)
    said_by = grid(heard, total, samples)

    def at_byte(position: int) -> int:
        return milliseconds(start + int(said_by(position)))

    words: list[Word] = []
    position = 0
    for piece, confidence in zip(split, confidences, strict=True):
        spoken = len(piece.text.rstrip().encode())
        begin, end = at_byte(position), at_byte(position + spoken)
        words.append(Word(piece.word, piece.text, begin, end, confidence))
        position += len(piece.text.encode())
    return tuple(words)


def grid(heard: Sequence[tuple[int, int]], total: int, samples: int) -> Callable[[Any], Any]:
    """Return the sample of a segment by which so many of its text's `total` bytes had been said.

    `heard` has, token by token, the bytes of the text so far and the sample of the segment by
    which the token had been said; the last one may end within a character, before which the text
    ends. If it is of another text, that is spread over the segment's `samples`.
    """
    known = [(min(size, total), sample) for size, sample in heard]
    if not heard or not 0 <= heard[-1][0] - total < _LONGEST_CHARACTER:
        known = [(total, samples)]
    # Of several tokens heard at once, the last: until there, time is shared out.
    until = {min(sample, samples): size for size, sample in known}
    return partial(np.interp, xp=[0, *until.values()], fp=[0, *until])


def heard_by(
    pieces: Iterable[tuple[int, bytes]], established: Sequence[int]
) -> list[tuple[int, int]]:
    """Return, for each piece of a text, the bytes up to its end and the sample by which it was
    said: that of its token, by whose number the sample is `established`.
    """
    size, found = 0, []
    for at, data in pieces:
        size += len(data)
        found.append((size, established[at]))
    return found
