"""The margin over a forecast: as large as the misses require, bounded by the observed errors."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.planner.forecast import Margin, Miss

pytestmark = pytest.mark.unit
DAY = 2880
ALLOWED = 0.005


def margin(ratios: list[float] | None = None, memory_steps: int = 720) -> Margin:
    made = Margin(memory_steps=memory_steps, day_steps=DAY)
    for ratio in ratios if ratios is not None else list(np.linspace(0.5, 1.5, 720)):
        made.learn_ratio(ratio)
    return made


def missed(learning: Margin, demand: float, unserved: float, steps: int = 1) -> None:
    for _ in range(steps):
        learning.learn_miss(demand, Miss(unserved, ALLOWED))


def test_misses_widen_the_margin_and_steps_without_any_narrow_it() -> None:
    learning = margin()
    before = learning.factor
    missed(learning, 5.0, 0.3, steps=20)
    widened = learning.factor
    assert widened > before
    missed(learning, 5.0, 0.0, steps=DAY)
    assert learning.factor < widened


def test_the_share_missed_becomes_the_share_allowed_whatever_the_noise() -> None:
    chance = np.random.default_rng(3)
    for spread in (0.1, 0.3, 0.6):
        learning, shares = margin([]), []
        for _ in range(5 * DAY):
            demand = float(chance.lognormal(0.0, spread))
            unserved = max(0.0, 1.0 - learning.factor / demand)
            learning.learn_ratio(demand)
            missed(learning, 1.0, unserved)
            shares.append(unserved)
        assert np.mean(shares[DAY:]) == pytest.approx(ALLOWED, abs=0.002)


def test_under_rare_bursts_too_and_none_of_them_is_paid_for_until_it_is_forgotten() -> None:
    chance = np.random.default_rng(5)
    learning, factors, shares = margin([], memory_steps=DAY), [], []
    for _ in range(80):  # bursts, one every two hours
        height = 1.0 + float(chance.pareto(1.5))
        for step in range(240):
            ratio = height if step < 5 else float(chance.normal(1.0, 0.02))
            unserved = max(0.0, 1.0 - learning.factor / ratio)
            learning.learn_ratio(ratio)
            missed(learning, 1.0, unserved)
            shares.append(unserved)
            factors.append(learning.factor)
    assert np.mean(shares[DAY:]) == pytest.approx(ALLOWED, abs=0.002)
    # The largest of a day's bursts is about six times the usual demand; the margin is far smaller.
    assert 1.1 < np.mean(factors[DAY:]) < 2.0


def test_no_margin_is_larger_than_what_was_observed() -> None:
    learning = margin()
    missed(learning, 5.0, 1.0, steps=1000)
    assert 1.49 < learning.factor <= 1.5


def test_an_event_of_a_minute_or_two_is_not_the_margin_of_a_day() -> None:
    learning = margin([50.0] * 5 + [1.1] * (DAY - 5), memory_steps=DAY)
    missed(learning, 5.0, 1.0, steps=1000)
    assert learning.factor == pytest.approx(1.1)


def test_errors_older_than_the_memory_are_forgotten() -> None:
    learning = margin([9.0] * 720 + [1.1] * 720)
    missed(learning, 5.0, 1.0, steps=1000)
    assert learning.factor == pytest.approx(1.1)


def test_a_miss_at_night_counts_less_than_one_at_noon() -> None:
    noon, night = margin(), margin()
    for learning, demand in ((noon, 10.0), (night, 0.1)):
        missed(learning, 10.0, ALLOWED, steps=200)
        missed(learning, demand, 0.5)
    assert noon.level > night.level
