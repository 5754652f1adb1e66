"""From the times of a text's tokens to those of its words. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from auricle.alignment.words import spoken_part


def word_times(
    tokens: Sequence[int], times: Sequence[float], texts: Sequence[str], lead: int = 0
) -> list[float]:
    """Return begin and end of each word.

    `tokens` are the lengths of the tokens in bytes, `times` when each begins, and last when the
    text ends. `texts`, joined, are the text, each with the punctuation around a word, which has no
    part in its time; the tokens have `lead` bytes before it. Words that share a token divide its
    time by their bytes.
    """
    spans = _spans(texts, lead)
    edges = np.array([0, *accumulate(tokens)])
    edges[-1] = max(edges[-1], spans[-1][1])  # a tokenizer may have composed characters
    counted = np.zeros(edges[-1] + 1, np.int64)
    for begin, end in spans:
        counted[begin + 1 : end + 1] = 1
    counted = np.cumsum(counted)  # bytes of words before each byte
    before = counted[edges]
    spoken = np.flatnonzero(np.diff(before))  # tokens that have a part in a word

    def at(byte: int, token: int) -> float:
        share = (counted[byte] - before[token]) / (before[token + 1] - before[token])
        return float(times[token] + share * (times[token + 1] - times[token]))

    found = []
    for begin, end in spans:
        first = spoken[np.searchsorted(edges[spoken], begin, "right") - 1]
        last = spoken[np.searchsorted(edges[spoken], end - 1, "right") - 1]
        found += [at(begin, first), at(end, last)]
    return found


def _spans(texts: Sequence[str], lead: int) -> list[tuple[int, int]]:
    """Return where the words are, in bytes."""
    spans = []
    start = lead
    for text in texts:
        before, word = spoken_part(text)
        begin = start + len(before.encode())
        spans.append((begin, begin + len(word.encode())))
        start += len(text.encode())
    return spans
