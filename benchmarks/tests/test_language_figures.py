"""The benchmark of languages: its conversations, and the shares of right languages."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.languages.cases import Case, Turn
from benchmarks.languages.figures import Segment, Transcribed, figures

pytestmark = pytest.mark.unit
SAID = Case(
    np.zeros(160, np.float32),
    (Turn(0.5, 2.0, "German", "der Hund"), Turn(3.0, 4.0, "Spanish", "el perro")),
    ("German", "Spanish"),
)


def heard(*named: Segment) -> dict[str, float]:
    detected = (Segment(0.4, 2.2, "German", "der hund"), Segment(2.8, 4.1, "English", "the pear"))
    return figures([Transcribed(SAID, detected, named)])


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
            Transcribed(
                alone,
                (Segment(0.4, 2.2, "German", "der hund"),),
                (Segment(0.4, 1.0, "German", "der"), Segment(1.0, 2.2, "German", "Hund")),
            )
        ]
    )
    assert found["wer_detected_german"] == 50 and found["wer_given_german"] == 0
