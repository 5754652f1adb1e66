"""The comparison of two servers that are measured in pairs."""

from __future__ import annotations

import pytest

from benchmarks.statistics import ratio

pytestmark = pytest.mark.unit


def test_a_ratio_is_the_median_of_the_pairs_and_not_of_the_medians() -> None:
    # The machine is three times slower during the last two pairs.
    before, now = [1.0, 1.0, 1.0, 3.0, 3.0], [0.5, 0.5, 0.5, 1.5, 1.5]
    found = ratio(before, now)
    assert found.ratio == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert (found.before, found.now) == (1.0, 0.5)


def test_an_interval_lies_within_the_pairs_and_holds_the_ratio() -> None:
    found = ratio([1.0] * 7, [0.8, 0.9, 1.0, 1.1, 1.2, 0.95, 1.05])
    assert 0.8 <= found.low < found.ratio < found.high <= 1.2


def test_few_pairs_have_an_interval_of_all_of_them() -> None:
    found = ratio([1.0, 1.0], [0.5, 2.0])
    assert (found.low, found.high) == (0.5, 2.0)
