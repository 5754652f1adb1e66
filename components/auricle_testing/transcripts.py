"""Checks of a live session's transcript, and comparisons of two transcripts of the same audio.

No I/O.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jiwer

# The audio alone determines these events; the value is the field with their time in ms.
_FIXED = {"speech_started": "at_ms", "speech_stopped": "at_ms", "final": "end_ms"}
_SAME_MS = 100.0  # two runs may end a segment a frame or two apart


@dataclass(frozen=True)
class Compared:
    """Words that differ from the undisturbed transcript: missing, additional and substituted."""

    lost: int
    doubled: int
    changed: int

    @property
    def identical(self) -> bool:
        """Whether the transcripts are the same."""
        return not (self.lost or self.doubled or self.changed)


def compared(undisturbed: str, found: str) -> Compared:
    """Compare a transcript with the undisturbed one of the same audio."""
    if not undisturbed.split() or not found.split():
        return Compared(len(undisturbed.split()), len(found.split()), 0)
    words = jiwer.process_words(undisturbed, found)
    return Compared(words.deletions, words.insertions, words.substitutions)


def heard(events: Sequence[Mapping[str, Any]]) -> str:
    """The text of the finals. Checks that committed text stayed and segments do not overlap."""
    assert events[-1]["type"] == "done", events[-1]
    finals = [e for e in events if e["type"] == "final"]
    assert [e["segment"] for e in finals] == sorted({e["segment"] for e in finals})
    for before, after in pairwise(finals):
        assert before["end_ms"] <= after["start_ms"]
    committed: dict[int, str] = {}
    for event in events:
        if event["type"] in ("partial", "final"):
            said = event["committed"] if event["type"] == "partial" else event["text"]
            assert said.startswith(committed.get(event["segment"], ""))
            committed[event["segment"]] = said
    assert " ".join(e["text"] for e in finals if e["text"]) == events[-1]["text"]
    return str(events[-1]["text"])


def on_the_bus(heard: Iterable[str], published: Iterable[str]) -> tuple[int, int]:
    """Return the numbers of missing and of surplus finals on the bus.

    A final that clients received must be there exactly once, and no other final.
    """
    clients, bus = Counter(filter(None, heard)), Counter(filter(None, published))
    return (clients - bus).total(), (bus - clients).total()


def events_compared(
    undisturbed: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]
) -> tuple[int, int]:
    """Return how many events of an undisturbed session are missing, and how many are surplus.

    Starts and stops of speech and final texts must be the same. The load determines which partial
    texts there are; a partial text without new audio counts as surplus.
    """
    lost, doubled = 0, _repeated(found)
    for kind, time in _FIXED.items():
        expected = sorted(event[time] for event in undisturbed if event["type"] == kind)
        there = sorted(event[time] for event in found if event["type"] == kind)
        pairs = _pairs(expected, there)
        lost += len(expected) - pairs
        doubled += len(there) - pairs
    return lost, doubled


def _pairs(expected: Sequence[float], there: Sequence[float]) -> int:
    """Return the number of matching pairs of two ascending lists of times."""
    pairs = at = 0
    for time in expected:
        while at < len(there) and there[at] < time - _SAME_MS:
            at += 1
        if at < len(there) and there[at] <= time + _SAME_MS:
            pairs, at = pairs + 1, at + 1
    return pairs


def _repeated(events: Sequence[dict[str, Any]]) -> int:
    """Return the number of partials up to a time that an earlier event had already reached."""
    told: dict[int, float] = {}
    repeated = 0
    for event in events:
        if event["type"] == "partial":
            repeated += event["audio_ms"] <= told.get(event["segment"], -1)
            told[event["segment"]] = max(told.get(event["segment"], -1), event["audio_ms"])
        elif event["type"] == "final":
            told[event["segment"]] = math.inf
    return repeated
