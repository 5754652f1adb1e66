"""Confidence of words, from the log probabilities of their tokens. No I/O.

A word's confidence is the probability of its least probable token: a word is wrong as soon as one
of its tokens is, and a product would decrease with the word's length. A text's confidence is the
mean of its words': the expected share of correct words. docs/words.md has its calibration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

# The tokens of a text: the bytes and the log probability of each, None if unknown.
Scored = Sequence[tuple[bytes, float | None]]
_DIGITS = 4


def of_words(texts: Sequence[str], tokens: Scored) -> tuple[float | None, ...]:
    """Return the confidence, from 0 to 1, of each of the parts `texts` of a text.

    None if unknown: the log probability of one of its tokens is unknown, or the tokens belong to
    another text. Only letters and digits count at a part's edges, so that a doubtful comma does not
    make a word doubtful.
    """
    spans = list(_spans(tokens))
    whole = "".join(texts).encode()
    if not b"".join(data for data, _ in tokens).startswith(whole):
        return (None,) * len(texts)
    found: list[float | None] = []
    at, token = 0, 0
    for text in texts:
        begin, end = _inner(text, at)
        at += len(text.encode())
        while token < len(spans) and spans[token][1] <= begin:
            token += 1
        found.append(_least(_within(spans, token, end)))
    return tuple(found)


def of_text(words: Iterable[float | None]) -> float | None:
    """Return the confidence of a text from its words'; None if one is unknown."""
    known = list(words)
    if not known or None in known:
        return None
    return round(sum(one for one in known if one is not None) / len(known), _DIGITS)


def _spans(tokens: Scored) -> Iterable[tuple[int, int, float | None]]:
    """Yield the start and end of each token, in bytes, and its log probability."""
    at = 0
    for data, logprob in tokens:
        yield at, at + len(data), logprob
        at += len(data)


def _inner(text: str, at: int) -> tuple[int, int]:
    """Return the byte range of letters and digits in a part that begins at byte `at`."""
    places = [place for place, character in enumerate(text) if character.isalnum()]
    if not places:
        return at, at + len(text.encode())
    before, inside = text[: places[0]], text[places[0] : places[-1] + 1]
    begin = at + len(before.encode())
    return begin, begin + len(inside.encode())


def _within(
    spans: Sequence[tuple[int, int, float | None]], first: int, end: int
) -> Iterable[float | None]:
    for number in range(first, len(spans)):
        begin, _, logprob = spans[number]
        if begin >= end:
            return
        yield logprob


def _least(logprobs: Iterable[float | None]) -> float | None:
    known = list(logprobs)
    if not known or None in known:
        return None
    return round(math.exp(min(one for one in known if one is not None)), _DIGITS)
