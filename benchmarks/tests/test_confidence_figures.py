"""Calibration of confidence: which words count as right, and the calibration error."""

from __future__ import annotations

import pytest

from benchmarks.annotations.confidence import Judged, calibration_error, figures, judged

pytestmark = pytest.mark.unit


def test_words_that_are_as_often_right_as_they_are_sure_have_no_error() -> None:
    half = [Judged(0.5, number % 2 == 0) for number in range(10)]
    sure = [Judged(1.0, right=True)] * 10
    assert calibration_error(half + sure) == pytest.approx(0.0)


def test_the_error_is_the_mean_distance_by_words() -> None:
    boastful = [Judged(0.95, number < 5) for number in range(10)]  # half of them are right
    humble = [Judged(0.25, right=True)] * 30
    assert calibration_error(boastful + humble) == pytest.approx((10 * 0.45 + 30 * 0.75) / 40)


def test_a_word_is_right_if_it_was_said_there() -> None:
    found = judged("ten green bottles", "ten red bottles hanging", [0.9, 0.4, 0.8, 0.2])
    assert found == [
        Judged(0.9, right=True),
        Judged(0.4, right=False),
        Judged(0.8, right=True),
        Judged(0.2, right=False),
    ]
    assert judged("", "ten", [0.9]) == [Judged(0.9, right=False)]
    with pytest.raises(ValueError, match="2 words have 1"):
        judged("ten", "ten green", [0.9])


def test_figures_say_whether_right_words_are_surer() -> None:
    found = figures([Judged(0.9, right=True), Judged(0.8, right=True), Judged(0.3, right=False)])
    assert (found["confidence_auc"], found["confidence_words"]) == (1.0, 3.0)
    assert found["confidence_words_right"] == pytest.approx(0.6667, abs=1e-3)
    assert "confidence_auc" not in figures([Judged(0.9, right=True)])
