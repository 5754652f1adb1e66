"""The words of a part of a recording, which a processor may have cut into several segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from auricle.messages.sessions import Words
from auricle.messages.stream import Word

_GRID = "commit_grid"


@dataclass(frozen=True)
class PartWords:
    """`words` are all of the part's, or none: their `text`, joined, is the part's text.

    `missing` says why times are not the aligner's, empty if they are; with `words` they are those
    of decodes.
    """

    words: tuple[Word, ...] = ()
    missing: str = ""


NO_WORDS = PartWords()


def words_of(segments: Sequence[Words]) -> PartWords:
    """Join the words of the segments with text of a part, in order; text is joined by spaces."""
    missing = next((one.missing for one in segments if one.source is None), "")
    if missing:
        return PartWords(missing=missing)
    words: list[Word] = []
    for one in segments:
        if words and one.words:
            words[-1] = replace(words[-1], text=f"{words[-1].text} ")
        words += one.words
    coarse = next((one.missing for one in segments if one.source == _GRID), "")
    return PartWords(tuple(words), coarse)


def missing_words(parts: Iterable[PartWords]) -> list[str]:
    """Return sentences on the parts whose words have no times, or rough ones; empty if none."""
    absent: Counter[str] = Counter()
    rough: Counter[str] = Counter()
    for part in parts:
        if part.missing:
            (rough if part.words else absent)[part.missing] += 1
    return [
        *(f"{count} segments have no times of words: {why}" for why, count in absent.items()),
        *(f"{count} segments have rough times of words: {why}" for why, count in rough.items()),
    ]
