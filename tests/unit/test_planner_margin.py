"""The margin over a forecast: as large as the misses ask for, never beyond what was observed."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.planner.margin import Margin

pytestmark = pytest.mark.unit
DAY = 2880


def margin(ratios: list[float] | None = None) -> Margin:
    made = Margin(allowed=0.005, memory_steps=720, day_steps=DAY)
    for ratio in ratios if ratios is not None else list(np.linspace(0.5, 1.5, 720)):
        made.learn_ratio(ratio)
    return made


def test_misses_widen_the_margin_and_steps_without_any_narrow_it() -> None:
    learning = margin()
    before = learning.factor
    for _ in range(20):
        learning.learn_miss(5.0, 0.3)
    widened = learning.factor
    assert widened > before
    for _ in range(DAY):
        learning.learn_miss(5.0, 0.0)
    assert learning.factor < widened


def test_the_share_missed_becomes_the_share_allowed_whatever_the_noise() -> None:
    chance = np.random.default_rng(3)
    for spread in (0.1, 0.3, 0.6):
        learning, missed = margin([]), []
        for _ in range(5 * DAY):
            demand = float(chance.lognormal(0.0, spread))
            unserved = max(0.0, 1.0 - learning.factor / demand)
            learning.learn_ratio(demand)
            learning.learn_miss(1.0, unserved)
            missed.append(unserved)
        assert np.mean(missed[DAY:]) == pytest.approx(0.005, abs=0.003)


def test_no_margin_is_larger_than_what_was_observed() -> None:
    learning = margin()
    for _ in range(1000):
        learning.learn_miss(5.0, 1.0)
    assert learning.factor == pytest.approx(1.5)


def test_errors_older_than_the_memory_are_forgotten() -> None:
    learning = margin([9.0] * 720 + [1.1] * 720)
    for _ in range(1000):
        learning.learn_miss(5.0, 1.0)
    assert learning.factor == pytest.approx(1.1)


def test_a_miss_at_night_counts_less_than_one_at_noon() -> None:
    noon, night = margin(), margin()
    for learning, demand in ((noon, 10.0), (night, 0.1)):
        for _ in range(200):
            learning.learn_miss(10.0, 0.005)
        learning.learn_miss(demand, 0.5)
    assert noon.level > night.level
