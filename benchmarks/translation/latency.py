"""The latency of translated words: LongYAAL, and their lag behind the committed source. Pure.

LongYAAL is as in Polák et al., "Better Late Than Never: Evaluation of Latency Metrics for
Simultaneous Speech-to-Text Translation" (arXiv:2509.17349): the words of a whole recording's
translation are assigned to the reference's sentences, and in each of these, with its words' delays
d_i from its begin, its length |X| and the longer of hypothesis and reference |Y|,

    mean over i of d_i - (i - 1) * |X| / |Y|

up to the first word that comes after the recording's end. A delay is the audio received
(computation-unaware) or the time passed (computation-aware) when a word was committed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CommittedWord:
    """A word of a translation, and when it was committed: seconds of audio and of time."""

    word: str
    audio: float
    clock: float


@dataclass(frozen=True)
class Sentence:
    """A sentence of a recording: start and end, and the words of its reference."""

    start: float
    end: float
    reference: tuple[str, ...]


def longyaal(
    words: Sequence[CommittedWord], sentences: Sequence[Sentence], seconds: float, *, aware: bool
) -> float:
    """Return LongYAAL for a recording of that length; NaN without a word before its end."""
    scores = []
    for sentence, own in zip(sentences, assigned(words, sentences), strict=True):
        delays = [(one.clock if aware else one.audio) - sentence.start for one in own]
        length = sentence.end - sentence.start
        score = _lagging(delays, length, len(sentence.reference), seconds - sentence.start)
        scores += [] if score is None else [score]
    return statistics.mean(scores) if scores else math.nan


def _lagging(
    delays: Sequence[float], length: float, reference: int, recording: float
) -> float | None:
    """Return the mean lag behind an ideal that spreads the words evenly; None without words."""
    step = length / max(len(delays), reference, 1)
    lags: list[float] = []
    for number, delay in enumerate(delays):
        if delay >= recording:
            break
        lags.append(delay - number * step)
    return statistics.mean(lags) if lags else None


def assigned(
    words: Sequence[CommittedWord], sentences: Sequence[Sentence]
) -> list[list[CommittedWord]]:
    """Return the words of each sentence.

    The two texts are aligned by similarity of words; a word without a counterpart in the reference
    belongs to the sentence of the word before it.
    """
    reference = [(word, n) for n, one in enumerate(sentences) for word in one.reference]
    pairs = dict(_aligned([one.word for one in words], [word for word, _ in reference]))
    found: list[list[CommittedWord]] = [[] for _ in sentences]
    sentence = 0
    for number, one in enumerate(words):
        if number in pairs:
            sentence = reference[pairs[number]][1]
        if found:
            found[sentence].append(one)
    return found


def _aligned(words: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of places, last first: the alignment with the greatest total similarity."""
    best = [[0.0] * (len(others) + 1) for _ in range(len(words) + 1)]
    for i, word in enumerate(words, 1):
        for j, other in enumerate(others, 1):
            pair = best[i - 1][j - 1] + _similarity(word, other)
            best[i][j] = max(pair, best[i - 1][j], best[i][j - 1])
    i, j = len(words), len(others)
    while i and j:
        alike = _similarity(words[i - 1], others[j - 1])
        if alike and best[i][j] == best[i - 1][j - 1] + alike:
            i, j = i - 1, j - 1
            yield i, j
        elif best[i][j] == best[i - 1][j]:
            i -= 1
        else:
            j -= 1


def _similarity(one: str, other: str) -> float:
    """Return the share of letters that both words have."""
    letters, theirs = set(one), set(other)
    return len(letters & theirs) / max(1, len(letters | theirs))


def lags(source: Sequence[float], target: Sequence[float]) -> list[float]:
    """Return, for one segment, how long after its source each translated word was committed.

    Both are the times at which words were committed. The source of a word is at the same relative
    position in the text.
    """
    if not source:
        return []
    share = len(source) / max(1, len(target))
    return [
        max(0.0, at - source[math.ceil(number * share) - 1]) for number, at in enumerate(target, 1)
    ]
