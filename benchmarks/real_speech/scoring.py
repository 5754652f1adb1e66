"""Word error rates as they are published for Whisper: after its normaliser, with intervals.

The normaliser is transformers' (numbers, contractions, titles); its table of British and American
spellings is from PyPI's whisper-normalizer. Each digit then counts as a word, because speech does
not reveal how digits are grouped. Intervals are from a bootstrap over recordings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from transformers.models.whisper.english_normalizer import (
    BasicTextNormalizer,
    EnglishTextNormalizer,
)

from benchmarks.words import Errors, errors, rate_interval
from models.training.packages import from_pypi

_SPELLINGS = "whisper-normalizer==0.1.15"
_BETWEEN_DIGITS = re.compile(r"(?<=\d)(?=\d)")
Normaliser = Callable[[str], str]
Interval = tuple[float, float] | None


@lru_cache
def normaliser(language: str) -> Normaliser:
    """Return the normaliser of a language. Accents do not count. Raises NoPackages."""
    if language != "English":
        basic: Normaliser = BasicTextNormalizer(remove_diacritics=True)
        return basic
    (table,) = from_pypi("whisper-normalizer", (_SPELLINGS,)).rglob("english.json")
    english: Normaliser = EnglishTextNormalizer(json.loads(table.read_text()))
    return english


def scored(said: str, heard: str, language: str) -> Errors:
    """Compare a transcript with its reference, both normalised."""
    normalise = normaliser(language)
    words, written = (_BETWEEN_DIGITS.sub(" ", normalise(t)).strip() for t in (said, heard))
    return errors(words, written)


def points(rows: Sequence[Errors]) -> float:
    """Return errors per hundred words."""
    return 100 * sum(row.wrong for row in rows) / max(1, sum(row.words for row in rows))


def interval(rows: Sequence[Errors]) -> Interval:
    """Return the 95% interval of `points`; None for one recording."""
    if len(rows) < 2:
        return None
    if not any(row.wrong for row in rows):
        return 0.0, 0.0
    low, high = rate_interval(rows)
    return 100 * low, 100 * high


def difference(ours: Sequence[Errors], theirs: Sequence[Errors]) -> Interval:
    """Return the 95% interval of the difference of two rates, in points, of the same recordings."""
    pairs = zip(ours, theirs, strict=True)
    return interval([Errors(a.wrong - b.wrong, a.words) for a, b in pairs])
