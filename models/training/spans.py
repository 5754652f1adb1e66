"""Word times of a synthesised sentence, from espeak-ng's events.

A word begins with its word event, which precedes the closure of a stop consonant, and ends where
the next word or a pause begins. espeak-ng merges some pairs of small words ("in the", "there are"):
only the first has an event. If the second is "the", its start is found from the phonemes. Otherwise
that boundary is unknown, and neither training nor measurements use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_PAUSE = "_"
# The first phoneme of "the" in every accent in use.
_THE = "D"


class Phoneme(NamedTuple):
    """`name` is espeak-ng's name, which begins with an underscore for a pause."""

    start: float
    name: str


class Span(NamedTuple):
    """Seconds from the start of the sentence; None where the truth is unknown."""

    start: float | None
    end: float | None


def spans(
    text: str, starts: Mapping[int, float], phonemes: Sequence[Phoneme], duration: float
) -> list[Span]:
    """One span per word of `text`, whose words are separated by single spaces.

    `starts` maps the offset of a word in `text` to the time of its event (s). `phonemes`
    are in the order of time, and `duration` is the length of the whole sentence (s).
    """
    words = text.split()
    begins = _begins(words, starts)
    _split_pairs(words, begins, phonemes, duration)
    found = []
    for at, begin in enumerate(begins):
        after = begins[at + 1] if at + 1 < len(begins) else duration
        end = None if after is None else _end(begin, after, phonemes)
        found.append(Span(_rounded(begin), _rounded(end)))
    return found


def _begins(words: Sequence[str], starts: Mapping[int, float]) -> list[float | None]:
    begins, offset = [], 0
    for word in words:
        begins.append(starts.get(offset))
        offset += len(word) + 1
    return begins


def _split_pairs(
    words: Sequence[str],
    begins: list[float | None],
    phonemes: Sequence[Phoneme],
    duration: float,
) -> None:
    """Fill in the start of a "the" that is merged with the word before it."""
    for at in range(1, len(words)):
        before, after = begins[at - 1], (*begins[at + 1 :], duration)[0]
        if begins[at] is not None or words[at] != "the" or before is None or after is None:
            continue
        inside = [p.start for p in phonemes if before < p.start < after and p.name == _THE]
        if inside:
            begins[at] = inside[-1]


def _end(begin: float | None, after: float, phonemes: Sequence[Phoneme]) -> float | None:
    """The first pause after the word's last sound, or where the next word begins."""
    if begin is None:
        return after
    inside = [p for p in phonemes if begin <= p.start < after]
    end = after
    for phoneme in reversed(inside):
        if not phoneme.name.startswith(_PAUSE):
            break
        end = phoneme.start
    return end


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
