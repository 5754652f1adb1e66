"""Splits text into words for alignment, like the published aligner. No I/O.

Words are separated by white space, without punctuation; a Chinese character is a word. Each word
also has its piece of the text, so that subtitles can be cut at words: the joined pieces are the
text.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

# Ideographs: the unified block, its extensions A to E, and the compatibility blocks.
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
# Languages of the published aligner that need no dictionary. It also supports Japanese and Korean,
# with libraries that are not part of auricle.
SPLIT = (
    *("Chinese", "Cantonese", "English", "French", "German"),
    *("Italian", "Portuguese", "Russian", "Spanish"),
)
# Whisper's languages that are written without spaces; in `_BY_CHARACTER` each character is a word,
# like ideographs (`split_to_word_tokens` in openai/whisper's `tokenizer.py`).
UNSPACED = frozenset({"Chinese", "Cantonese", "Japanese", "Thai", "Lao", "Myanmar"})
_BY_CHARACTER = UNSPACED - {"Chinese", "Cantonese"}
# Their scripts: Thai and Lao, Myanmar, kana.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0xFF66, 0xFF9F),
)
NO_ALIGNER = (
    "this deployment has no aligner, so words have no times: request no word times, or serve "
    "graphs.e_pd_align or graphs.e_pd_words with Common.align_model"
)
_BY_DICTIONARY = ("Japanese", "Korean")


@dataclass(frozen=True)
class AlignedPiece:
    """A word for alignment, and its part of the text."""

    word: str
    text: str


def aligned_languages(named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the alignable languages among `named` by a checkpoint (default: `SPLIT`)."""
    return tuple(name for name in named or SPLIT if name not in _BY_DICTIONARY)


def pieces(text: str, language: str = "") -> tuple[AlignedPiece, ...]:
    """Split `text`; empty if it has neither letters nor digits.

    In Japanese, Thai, Lao and Myanmar each letter of these scripts is a word. Punctuation and white
    space belong to the previous word, at the beginning to the first.
    """
    words: list[str] = []
    starts: list[int] = []
    edge: int | None = 0  # start of the next word's piece, if before its first letter
    inside = False
    by_character = language in _BY_CHARACTER
    for at, character in enumerate(text):
        alone = _is_ideograph(character) or (by_character and _is_unspaced(character))
        if character.isspace():
            inside, edge = False, at + 1
        elif not _is_kept(character):
            continue
        elif inside and not alone:
            words[-1] += character
        else:
            starts.append(at if edge is None else edge)
            words.append(character)
            inside, edge = not alone, None
    if not words:
        return ()
    starts[0], ends = 0, [*starts[1:], len(text)]
    return tuple(
        AlignedPiece(word, text[start:end])
        for word, start, end in zip(words, starts, ends, strict=True)
    )


def spoken_part(text: str) -> tuple[str, str]:
    """Split a piece's text into the characters before its word, and the word."""
    kept = [at for at, character in enumerate(text) if _is_kept(character)]
    return (text[: kept[0]], text[kept[0] : kept[-1] + 1]) if kept else ("", text)


def divided(words: Sequence[str], parts: Sequence[str]) -> list[slice]:
    """Return the words that begin in each of the consecutive `parts` of the joined `words`."""
    starts = [0, *accumulate(map(len, words))][: len(words)]
    edges = [0, *accumulate(map(len, parts))]
    places = [bisect_left(starts, edge) for edge in edges]
    return [slice(begin, end) for begin, end in pairwise(places)]


def _is_ideograph(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _IDEOGRAPHS)


def _is_unspaced(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _UNSPACED)


def _is_kept(character: str) -> bool:
    if character == "'" or _is_ideograph(character):
        return True
    return unicodedata.category(character)[0] in "LN"
