"""What the benchmark of annotations makes of events, and which parts it measures."""

from __future__ import annotations

import pytest

from auricle.client import Final, Words
from benchmarks.annotations.delays import last_final, waits
from benchmarks.annotations.faults import compared
from benchmarks.annotations.graph import Told

pytestmark = pytest.mark.unit


def words(segment: int, missing: str | None = None) -> Words:
    return Words(segment, (), source=None if missing else "aligned", missing=missing)


def final(segment: int) -> Final:
    return Final(segment=segment, text="red", start_ms=0, end_ms=1000, language="English")


def test_words_wait_from_their_own_final_and_missing_ones_are_counted() -> None:
    events = [
        Told(1.0, final(0)),
        Told(2.0, final(1)),
        Told(2.25, words(1)),
        Told(3.0, words(0, "deadline")),
    ]
    assert waits(events) == ([0.25], 1)
    assert last_final(events) == 2.0


def test_after_a_fault_words_are_as_usual_or_said_to_be_missing() -> None:
    usual = {0: words(0), 1: words(1), 2: words(2)}
    hurt = {0: words(0), 1: words(1, "unavailable")}
    assert compared(usual, hurt) == (1, 1, 1)  # of the last nothing was said
