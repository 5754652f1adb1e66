"""Commits a growing segment's translation. No I/O, no clock.

Whenever the source has grown it is translated again, after the committed text. A rule decides how
much of the new hypothesis is committed:

- agreement: the common prefix of two successive hypotheses (LocalAgreement-2);
- mask: all but the last words (mask-k).

The last word of a hypothesis is never committed before the source is complete: its ending and
punctuation depend on later source text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

# Scripts without white space between words, and their punctuation.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3000, 0x30FF),  # CJK punctuation, Hiragana, Katakana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF00, 0xFF65),
    (0x20000, 0x2EBEF),
)


def is_cut(text: str, at: int) -> bool:
    """Whether a cut of `text` at `at` leaves whole words.

    A cut is before white space, or between any two characters of a script without white space.
    """
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before.isspace():
        return False
    if after.isspace():
        return True
    return (_unspaced(before) or _unspaced(after)) and not unicodedata.combining(after)


def last_cut(text: str, most: int) -> int:
    """Return the last cut of `text` at or before `most`; 0 without one."""
    return next((at for at in range(min(most, len(text) - 1), 0, -1) if is_cut(text, at)), 0)


def whole_words(text: str, ahead: str) -> str:
    """Return `text` without an unfinished last word; `ahead` is a guess of the following text."""
    return text[: last_cut(text + ahead, len(text))]


def joined(answer: str, text: str) -> str:
    """Append `text`, which begins a word, to `answer`, which ends with a whole word."""
    if not answer:
        return text.lstrip()
    touching = text[:1].isalnum() and answer[-1].isalnum()
    if touching and not _unspaced(answer[-1]) and not _unspaced(text[0]):
        return f"{answer} {text}"
    return answer + text


def between(before: str, after: str) -> str:
    """Return the white space between two texts, such as segments, if they need any."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return ""
    return "" if _unspaced(before[-1]) or _unspaced(after[0]) else " "


def _unspaced(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _UNSPACED)


# Returns how many characters of the second hypothesis, after the first, may be committed. It may be
# fewer than are committed already.
Rule = Callable[[str, str], int]


def agreement(before: str, now: str) -> int:
    """Keep the whole words that both hypotheses begin with."""
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    )
    at = last_cut(now, same)
    # The common prefix may end inside a word of the other hypothesis.
    return at if not at or is_cut(before, at) else last_cut(now, at - 1)


def mask(words: int) -> Rule:
    """Return the rule that keeps all but the last `words` words, at least one."""

    def keep(_before: str, now: str) -> int:
        at = len(now)
        for _ in range(max(words, 1)):
            at = last_cut(now, at - 1)
        return at

    return keep


@dataclass(frozen=True)
class GrowingTranslation:
    """The translation of one segment: `committed` is final, and begins the last `hypothesis`."""

    committed: str = ""
    hypothesis: str = ""

    @property
    def partial(self) -> str:
        """The part after `committed`, which may change."""
        return self.hypothesis[len(self.committed) :]

    def after(self, text: str, rule: Rule, *, whole: bool) -> GrowingTranslation:
        """Return the translation after a hypothesis, whose `text` follows `committed`.

        The last hypothesis, with `whole`, is committed completely.
        """
        now = joined(self.committed, text).rstrip()
        if whole:
            return GrowingTranslation(now, now)
        keep = max(rule(self.hypothesis, now), len(self.committed))
        return GrowingTranslation(now[:keep], now)


# The sentences before a segment with their translations: the context of its translation.
Pairs = tuple[tuple[str, str], ...]
_SEGMENTS = 2
_CHARACTERS = 400  # limit of a segment and of its translation; longer ones give no context


def followed(context: Pairs, source: str, target: str) -> Pairs:
    """Return the context of the next segment, after `source` was translated as `target`."""
    if not target or max(len(source), len(target)) > _CHARACTERS:
        return ()
    return (*context, (source, target))[-_SEGMENTS:]
