"""Where a text may be cut so that no word is taken apart. No I/O.

A cut lies before white space, and between any two characters of scripts that write without it.
"""

from __future__ import annotations

import unicodedata

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
    """Whether `text` may be cut at `at`, inside of it; what comes before has whole words then."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before.isspace():
        return False
    if after.isspace():
        return True
    return (_unspaced(before) or _unspaced(after)) and not unicodedata.combining(after)


def last_cut(text: str, most: int) -> int:
    """Return the last place at or before `most` where `text` may be cut; 0 if there is none."""
    return next((at for at in range(min(most, len(text) - 1), 0, -1) if is_cut(text, at)), 0)


def whole_words(text: str, ahead: str) -> str:
    """Return `text` without a last word that may go on; `ahead` is a guess of what follows it."""
    return text[: last_cut(text + ahead, len(text))]


def joined(answer: str, text: str) -> str:
    """Return `answer`, which ends with a whole word, followed by `text`, which begins another."""
    if not answer:
        return text.lstrip()
    touching = text[:1].isalnum() and answer[-1].isalnum()
    if touching and not _unspaced(answer[-1]) and not _unspaced(text[0]):
        return f"{answer} {text}"
    return answer + text


def _unspaced(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _UNSPACED)
