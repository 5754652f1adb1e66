"""The benchmark of languages: who speaks what, and what counts as right."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.languages.cases import Case, Turn, cases
from benchmarks.languages.figures import Heard, Segment, figures
from models.training.corpus import Corpus, set_name

pytestmark = pytest.mark.unit
SAID = Case(
    np.zeros(160, np.float32),
    (Turn(0.5, 2.0, "German", "der Hund"), Turn(3.0, 4.0, "Spanish", "el perro")),
    ("German", "Spanish"),
)


def heard(*named: Segment) -> dict[str, float]:
    detected = (Segment(0.4, 2.2, "German", "der hund"), Segment(2.8, 4.1, "English", "the pear"))
    return figures([Heard(SAID, detected, named)])


def test_a_turn_is_right_if_all_its_segments_are_in_its_language() -> None:
    found = heard(
        Segment(0.4, 1.0, "German", "der"),
        Segment(1.0, 2.2, "Spanish", "un"),
        Segment(2.5, 4.4, "Spanish", "el perro"),
    )
    assert found["language_right"] == found["language_right_of_two_detected"] == 0.5
    assert found["language_right_german"] == 1 and found["language_right_spanish"] == 0
    assert found["language_right_of_two_named"] == 0.5
    assert found["language_segments_not_named"] == 0
    assert found["language_turns"] == 2


def test_a_turn_without_text_is_not_right_and_a_language_that_was_not_named_is_told() -> None:
    found = heard(Segment(0.4, 2.2, "French", "le chien"))
    assert found["language_right_of_two_named"] == 0
    assert found["language_segments_not_named"] == 1


def test_capitals_count_as_words_do() -> None:
    alone = Case(SAID.samples, SAID.turns[:1], ("German",))
    found = figures(
        [
            Heard(
                alone,
                (Segment(0.4, 2.2, "German", "der hund"),),
                (Segment(0.4, 1.0, "German", "der"), Segment(1.0, 2.2, "German", "Hund")),
            )
        ]
    )
    assert found["wer_detected_german"] == 50 and found["wer_given_german"] == 0


def test_each_language_of_a_case_is_spoken_and_pauses_end_segments(tmp_path: Path) -> None:
    spoken = {}
    for code, words in (("en", "hello anna"), ("de", "der Hund"), ("es", "el perro")):
        stem = tmp_path / set_name("unseen", code)
        row = (0, 16_000, f"{code}+m1", words, [0.5, 1.0], [(None, None)] * 2)
        stem.with_suffix(".json").write_text(json.dumps([row] * 8))
        np.full(16_000, 8_000, np.int16).tofile(stem.with_suffix(".pcm"))
        spoken[code] = Corpus(tmp_path, "unseen", languages=(code,))
    found = cases(8, spoken)
    assert [len(case.languages) for case in found] == [1, 2] * 4
    for case in found:
        assert {turn.language for turn in case.turns} == set(case.languages)
        assert all(later.start - turn.end >= 0.9 for turn, later in pairwise(case.turns))
        for turn in case.turns:
            said = case.samples[round(turn.start * 16_000) : round(turn.end * 16_000)]
            assert np.abs(said).mean() > 0.2
    assert found[0].turns == cases(8, spoken)[0].turns
