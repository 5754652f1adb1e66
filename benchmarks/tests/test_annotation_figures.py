"""Figures of the benchmark of annotations from events."""

from __future__ import annotations

import pytest

from auricle.client import Final, Words
from benchmarks.annotations.delays import last_final, waits
from benchmarks.annotations.faults import compared
from benchmarks.sessions import Session, TimedEvent

pytestmark = pytest.mark.unit


def words(segment: int, missing: str | None = None) -> Words:
    return Words(segment, (), source=None if missing else "aligned", missing=missing)


def final(segment: int) -> Final:
    return Final(segment=segment, text="red", start_ms=0, end_ms=1000, language="English")


def test_words_wait_from_their_own_final_and_missing_ones_are_counted() -> None:
    session = Session(
        [
            TimedEvent(1.0, 0.0, final(0)),
            TimedEvent(2.0, 0.0, final(1)),
            TimedEvent(2.25, 0.0, words(1)),
            TimedEvent(3.0, 0.0, words(0, "deadline")),
        ]
    )
    assert waits(session) == ([0.25], 1)
    assert last_final(session) == 2.0


def test_after_a_fault_words_are_the_same_or_reported_missing() -> None:
    usual = {0: words(0), 1: words(1), 2: words(2)}
    hurt = {0: words(0), 1: words(1, "unavailable")}
    assert compared(usual, hurt) == (1, 1, 1)  # nothing arrived for the last
