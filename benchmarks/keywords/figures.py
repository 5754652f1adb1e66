"""Leaks and gains of keywords, from spoken and written words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import jiwer


@dataclass(frozen=True)
class Written:
    """One case: its words, its keywords, and the text without keywords and with them, by a server
    with its guard (`guarded`) and without."""

    spoken: tuple[str, ...]
    keywords: tuple[str, ...]
    keywords_spoken: bool
    without: str
    guarded: str
    unguarded: str


def figures(written: Sequence[Written]) -> dict[str, float]:
    """Return the figures of METRICS.md, "Keywords"."""
    words = sum(len(one.spoken) for one in written)
    likely = [one for one in written if one.keywords_spoken]
    unlikely = [one for one in written if not one.keywords_spoken]
    found = {
        "keyword_recordings": float(len(written)),
        "keyword_words": float(words),
        "keyword_leak_per_1000_words": 1000 * _leaks(written, "guarded") / words,
        "keyword_leak_per_1000_words_unguarded": 1000 * _leaks(written, "unguarded") / words,
        "keyword_recall_without": _recall(likely, "without"),
        "keyword_recall": _recall(likely, "guarded"),
        "keyword_recall_unguarded": _recall(likely, "unguarded"),
    }
    found["keyword_recall_gain"] = found["keyword_recall"] - found["keyword_recall_without"]
    for name, some in (("said", likely), ("not_said", unlikely)):
        for text in ("without", "guarded", "unguarded"):
            found[f"keyword_wer_{name}_{text}"] = 100 * _wer(some, text)
    return found


def _leaks(written: Sequence[Written], text: str) -> int:
    """Count keywords that were written more often than they were spoken, and than without a
    list."""
    found = 0
    for one in written:
        said, without = Counter(one.spoken), Counter(one.without.split())
        now = Counter(getattr(one, text).split())
        found += sum(max(0, now[word] - max(said[word], without[word])) for word in one.keywords)
    return found


def _recall(written: Sequence[Written], text: str) -> float:
    """Return the share of spoken keywords that were written."""
    there = of = 0
    for one in written:
        said, now = Counter(one.spoken), Counter(getattr(one, text).split())
        of += sum(said[word] for word in one.keywords)
        there += sum(min(said[word], now[word]) for word in one.keywords)
    return there / max(1, of)


def _wer(written: Sequence[Written], text: str) -> float:
    return float(
        jiwer.wer(
            [" ".join(one.spoken) for one in written], [getattr(one, text) for one in written]
        )
    )
