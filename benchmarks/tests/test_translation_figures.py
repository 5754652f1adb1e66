"""Figures of the benchmark of translation from events."""

from __future__ import annotations

import math

import pytest

from auricle.client import Translation
from benchmarks.sessions import Session, TimedEvent
from benchmarks.translation.faults import compared
from benchmarks.translation.graph import committed, taken_back, target_text
from benchmarks.translation.latency import CommittedWord, Sentence, assigned, lags, longyaal

pytestmark = pytest.mark.unit
ONE = Sentence(0.0, 4.0, ("el", "perro", "rojo", "viene"))


def words_at(*words: tuple[str, float]) -> list[CommittedWord]:
    return [CommittedWord(word, at, at + 0.5) for word, at in words]


def event(text: str, segment: int = 0, missing: str | None = None) -> Translation:
    return Translation(segment, "es", text, "", False, missing)


def test_words_in_step_with_their_source_lag_by_how_late_the_first_is() -> None:
    words = words_at(("el", 1.0), ("perro", 2.0), ("rojo", 3.0), ("viene", 4.0))
    assert longyaal(words, [ONE], 10.0, aware=False) == pytest.approx(1.0)
    assert longyaal(words, [ONE], 10.0, aware=True) == pytest.approx(1.5)


def test_words_committed_at_the_end_lag_behind_the_even_spread() -> None:
    words = words_at(("el", 4.0), ("perro", 4.0), ("rojo", 4.0), ("viene", 4.0))
    # 4 - 0, 4 - 1, 4 - 2, 4 - 3
    assert longyaal(words, [ONE], 10.0, aware=False) == pytest.approx(2.5)


def test_words_after_the_recording_are_not_counted() -> None:
    words = words_at(("el", 1.0), ("perro", 2.0), ("rojo", 9.0), ("viene", 9.0))
    assert longyaal(words, [ONE], 5.0, aware=False) == pytest.approx(1.0)
    assert math.isnan(longyaal(words_at(("el", 6.0)), [ONE], 5.0, aware=False))


def test_more_words_than_the_reference_give_no_advantage() -> None:
    doubled = [(word, 4.0) for word in ("el", "perro", "rojo", "viene") for _ in range(2)]
    # Eight words spread over four seconds: 4 - n / 2.
    assert longyaal(words_at(*doubled), [ONE], 10.0, aware=False) == pytest.approx(2.25)


def test_a_second_sentence_lags_behind_its_own_begin() -> None:
    two = [ONE, Sentence(5.0, 7.0, ("hola", "anna"))]
    words = words_at(("el", 1.0), ("perro", 2.0), ("rojo", 3.0), ("viene", 4.0))
    words += words_at(("hola", 7.0), ("anna", 8.0))
    assert [[w.word for w in some] for some in assigned(words, two)] == [
        ["el", "perro", "rojo", "viene"],
        ["hola", "anna"],
    ]
    assert longyaal(words, two, 20.0, aware=False) == pytest.approx((1.0 + 2.0) / 2)


def test_words_unlike_any_of_the_reference_go_with_the_word_before_them() -> None:
    two = [Sentence(0.0, 1.0, ("perro",)), Sentence(1.0, 2.0, ("gato",))]
    words = words_at(("xyz", 1.0), ("perro", 1.0), ("zzz", 1.0), ("gato", 2.0))
    assert [[w.word for w in some] for some in assigned(words, two)] == [
        ["xyz", "perro", "zzz"],
        ["gato"],
    ]


def test_a_translated_word_lags_behind_the_word_as_far_through_the_source() -> None:
    assert lags([1.0, 2.0, 3.0, 4.0], [1.5, 4.5]) == pytest.approx([0.0, 0.5])
    assert lags([1.0, 2.0], [2.0, 2.0, 3.0]) == pytest.approx([1.0, 0.0, 1.0])
    assert lags([], [1.0]) == []


def test_committed_words_have_the_time_of_their_first_event() -> None:
    events = [
        TimedEvent(1.0, 0.5, event("el perro")),
        TimedEvent(2.0, 1.5, event("el perro rojo")),
        TimedEvent(3.0, 2.5, event("el gato")),
        TimedEvent(4.0, 3.5, event("hola", segment=1)),
    ]
    assert [(one.word, one.audio, one.clock) for one in committed(Session(events))][:3] == [
        ("el", 0.5, 1.0),
        ("perro", 0.5, 1.0),
        ("rojo", 1.5, 2.0),
    ]
    assert taken_back(Session(events)) == 2
    assert taken_back(Session(events[:2])) == 0
    assert target_text(Session(events)) == "el gato hola"


def test_words_are_lost_or_doubled_unless_reported_missing() -> None:
    usual = {0: event("el perro rojo"), 1: event("hola anna", 1), 2: event("sí", 2)}
    hurt = {0: event("el perro perro"), 1: event("hola", 1, "deadline")}
    assert compared(usual, hurt) == (2, 1, 1)
    assert compared(usual, usual) == (0, 0, 0)
