"""Monotonic repair of predicted times, dynamic time warping, and word times. No I/O.

The repair is the published aligner's: the longest non-decreasing run of times is kept, and the
other times are taken from their neighbours. The published search for the run takes quadratic time;
a segment of five minutes has a thousand words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from auricle.transcript.words import spoken_part

_SNAPPED = 2  # up to 2 wrong times in a row take a neighbour's value; more are interpolated


def monotone(times: Sequence[int]) -> list[int]:
    """Return `times`, in any integer unit, as a non-decreasing sequence."""
    kept = _longest_run(times)
    fixed = list(times)
    for before, after in zip([None, *kept], [*kept, None], strict=True):
        first = 0 if before is None else before + 1
        last = len(times) if after is None else after
        _fill(fixed, first, last, before, after)
    return fixed


def _longest_run(times: Sequence[int]) -> list[int]:
    """Return the indices of the longest non-decreasing subsequence.

    Of several, it is the one that the published quadratic search finds: it ends at the first
    possible index, and each member follows the first possible one.
    """
    # Of the times that end a run of one length, later ones are smaller. Values are negated so that
    # each list is ascending; `lasts` has the smallest of each and is ascending too.
    values: list[list[int]] = []
    indices: list[list[int]] = []
    lasts: list[int] = []
    follows: list[int] = []
    for index, time in enumerate(times):
        length = bisect_right(lasts, time)
        if length == 0:
            follows.append(-1)
        else:
            first = bisect_left(values[length - 1], -time)
            follows.append(indices[length - 1][first])
        if length == len(lasts):
            lasts.append(time)
            values.append([])
            indices.append([])
        lasts[length] = time
        values[length].append(-time)
        indices[length].append(index)
    if not indices:
        return []
    run = [indices[-1][0]]
    while follows[run[-1]] >= 0:
        run.append(follows[run[-1]])
    return run[::-1]


def _fill(times: list[int], first: int, last: int, before: int | None, after: int | None) -> None:
    """Replace the times [first, last) between the kept ones at `before` and `after`."""
    if first == last:
        return
    if before is None or after is None:
        kept = after if before is None else before
        assert kept is not None
        times[first:last] = [times[kept]] * (last - first)
        return
    left, right, count = times[before], times[after], last - first
    for at in range(first, last):
        if count > _SNAPPED:
            times[at] = int(left + (right - left) / (count + 1) * (at - before))
        else:
            times[at] = left if at - before <= after - at else right


def first_columns(costs: npt.NDArray[np.float64]) -> list[int]:
    """Return the first column of each row on the cheapest path through `costs`, all finite.

    This is dynamic time warping as in openai/whisper (`whisper/timing.py`): rows are tokens,
    columns are moments. A step leads to the next row, the next column, or both.
    """
    rows, columns = costs.shape
    entered = np.empty((rows, columns), bool)  # from the row above
    straight = np.empty((rows, columns), bool)  # in the same column
    above = np.full(columns + 1, np.inf)
    above[0] = 0.0
    for row in range(rows):
        until = np.cumsum(costs[row])
        own = np.full(columns + 1, np.inf)
        best = np.minimum.accumulate(np.minimum(above[:-1], above[1:]) - (until - costs[row]))
        own[1:] = until + best
        diagonal, up, left = above[:-1], above[1:], own[:-1]
        straight[row] = (up < diagonal) & (up < left)
        entered[row] = straight[row] | ((diagonal < up) & (diagonal < left))
        above = own
    return _traced(entered, straight)


def _traced(entered: npt.NDArray[np.bool_], straight: npt.NDArray[np.bool_]) -> list[int]:
    found = []
    last = entered.shape[1] - 1
    for row in reversed(range(len(entered))):
        first = int(np.flatnonzero(entered[row, : last + 1])[-1])
        found.append(first)
        last = first if straight[row, first] else first - 1
    return found[::-1]


def word_times(
    tokens: Sequence[int], times: Sequence[float], texts: Sequence[str], lead: int = 0
) -> list[float]:
    """Return begin and end of each word.

    `tokens` are the tokens' lengths in bytes, `times` their begins and, last, the end of the text.
    `texts` are the words with the punctuation around them, which does not count for their times;
    joined they are the text, which follows `lead` bytes of the tokens. Words that share a token
    divide its time by their bytes.
    """
    spans = _spans(texts, lead)
    edges = np.array([0, *accumulate(tokens)])
    edges[-1] = max(edges[-1], spans[-1][1])  # the tokenizer may compose characters
    counted = np.zeros(edges[-1] + 1, np.int64)
    for begin, end in spans:
        counted[begin + 1 : end + 1] = 1
    counted = np.cumsum(counted)  # bytes of words before each byte
    before = counted[edges]
    spoken = np.flatnonzero(np.diff(before))  # tokens with a part of a word

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
    """Return begin and end of each word in bytes."""
    spans = []
    start = lead
    for text in texts:
        before, word = spoken_part(text)
        begin = start + len(before.encode())
        spans.append((begin, begin + len(word.encode())))
        start += len(text.encode())
    return spans
