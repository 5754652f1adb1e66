"""Comparing words: error rates, when they were committed, and how sure a difference is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import jiwer
import numpy as np
from scipy.stats import bootstrap

from benchmarks.speech import Word


@dataclass(frozen=True)
class Errors:
    """The word errors of one segment."""

    wrong: int
    words: int


def errors(said: str, heard: str) -> Errors:
    """Substitutions, insertions and deletions."""
    if not said:
        return Errors(len(heard.split()), 0)
    result = jiwer.process_words(said, heard or "")
    return Errors(result.substitutions + result.insertions + result.deletions, len(said.split()))


def rate(rows: Sequence[Errors]) -> float:
    """Errors per word spoken, over all segments."""
    return sum(row.wrong for row in rows) / sum(row.words for row in rows)


def difference_interval(
    ours: Sequence[Errors], theirs: Sequence[Errors], resamples: int = 2_000
) -> tuple[float, float]:
    """95% interval of the difference of two error rates, resampling segments in pairs."""
    pairs = zip(ours, theirs, strict=True)
    return rate_interval([Errors(a.wrong - b.wrong, a.words) for a, b in pairs], resamples)


def rate_interval(rows: Sequence[Errors], resamples: int = 2_000) -> tuple[float, float]:
    """95% interval of `rate`, resampling rows; there must be two at least."""
    table = np.array([[row.wrong, row.words] for row in rows])

    def statistic(chosen: np.ndarray, axis: int) -> np.ndarray:
        wrong, words = np.moveaxis(table[chosen].sum(axis=axis if axis >= 0 else -2), -1, 0)
        rates: np.ndarray = wrong / np.maximum(words, 1)
        return rates

    interval = bootstrap(
        (np.arange(len(table)),),
        statistic,
        n_resamples=resamples,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def spoken_in(words: Sequence[Word], start: float, end: float) -> list[Word]:
    """Words whose middle lies in [start, end) seconds."""
    return [w for w in words if start <= (w.start + w.end) / 2 < end]


def matches(said: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int]]:
    """Return (index said, index heard) of words that were recognised."""
    if not said or not heard:
        return []
    result = jiwer.process_words(" ".join(said), " ".join(heard))
    return [
        (chunk.ref_start_idx + at, chunk.hyp_start_idx + at)
        for chunk in result.alignments[0]
        if chunk.type == "equal"
        for at in range(chunk.ref_end_idx - chunk.ref_start_idx)
    ]


def committed_at(partials: Sequence[tuple[float, str]], final: str, end: float) -> list[float]:
    """Return when each word of the final text was first committed in its final form.

    `partials` are (time, committed text), in order; `end` is the time of the final.
    """
    words = final.split()
    times: list[float] = []
    for time, committed in partials:
        known = committed.split()
        while len(times) < min(len(known), len(words)) and known[len(times)] == words[len(times)]:
            times.append(time)
    return [*times, *[end] * (len(words) - len(times))]


def revised(partials: Sequence[tuple[float, str]], final: str) -> tuple[int, int]:
    """Return (committed words that the final text does not begin with, committed words).

    The last committed word may have been the beginning of a longer word.
    """
    changed = total = 0
    for _, committed in partials[-1:]:
        known, words = committed.split(), final.split()
        total += len(known)
        for at, word in enumerate(known):
            last = at + 1 == len(known)
            kept = at < len(words) and (words[at] == word or (last and words[at].startswith(word)))
            changed += not kept
    for (_, before), (_, after) in pairwise(partials):
        changed += not after.startswith(before)
    return changed, total
