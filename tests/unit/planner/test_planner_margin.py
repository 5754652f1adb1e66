"""The margin over a forecast: the smallest that would have held the SLO, in two parts."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.planner.forecast import Allowance, Forecast, ForecastSettings, Hindsight, Margin, Miss

pytestmark = pytest.mark.unit
DAY = 2880
ALLOWED = 0.005
A_WORKERS_SESSIONS = 96


def hindsight(size: float, demands: list[float]) -> Hindsight:
    """Forecasts of a constant demand, and the demands that followed."""
    made = Hindsight(memory_steps=DAY, lead_steps=5)
    for demand in demands:
        made.learn(size, 0.0, demand)
    return made


def margin(size: float, demands: list[float]) -> Margin:
    return hindsight(size, demands).margin(ALLOWED, len(demands))


def counted(size: float, steps: int = DAY) -> list[float]:
    """Demands of independent sessions with this mean, in workers."""
    chance = np.random.default_rng(1)
    counts = chance.poisson(size * A_WORKERS_SESSIONS, steps)
    return [float(count) / A_WORKERS_SESSIONS for count in counts]


def bursting(size: float) -> list[float]:
    """A burst of five minutes every two hours, of one and a half to three times the demand."""
    chance = np.random.default_rng(2)
    demands = counted(size)
    for begin in range(0, DAY, 240):
        height = chance.uniform(1.5, 3.0)
        demands[begin : begin + 10] = [height * one for one in demands[begin : begin + 10]]
    return demands


def test_without_bursts_the_margin_grows_with_the_square_root_of_the_load() -> None:
    small, large = margin(100.0, counted(100.0)), margin(800.0, counted(800.0))
    assert small.burst == large.burst == 0.0
    assert small.over(800.0) == pytest.approx(large.over(800.0), rel=0.25)
    assert small.over(800.0) / 800.0 == pytest.approx(small.over(100.0) / 100.0 / 8**0.5, rel=0.01)


def test_bursts_have_the_same_share_of_the_load_at_every_size() -> None:
    small, large = margin(16.0, bursting(16.0)), margin(128.0, bursting(128.0))
    assert small.burst > 0.2
    assert small.over(16.0) / 16.0 == pytest.approx(large.over(128.0) / 128.0, rel=0.1)


def test_bursts_do_not_change_the_part_for_noise() -> None:
    with_bursts, without = margin(128.0, bursting(128.0)), margin(128.0, counted(128.0))
    most_noise = hindsight(128.0, counted(128.0)).margin(0.0, DAY).noise
    assert without.noise < with_bursts.noise == pytest.approx(most_noise, rel=0.1)


@pytest.mark.parametrize("size", [2.3, 16.0, 128.0])
def test_the_margin_is_the_smallest_that_misses_no_more_than_allowed(size: float) -> None:
    demands = bursting(size)
    found = margin(size, demands)

    def missed(share: float) -> float:
        workers = np.ceil(size + share * found.over(size) - 0.05)
        return float(np.maximum(np.array(demands) - workers, 0.0).sum() / sum(demands))

    assert missed(1.0) <= ALLOWED
    assert missed(1.0 - 1.5 / found.over(size)) > ALLOWED  # with one and a half workers less


def test_whole_workers_that_have_room_need_no_margin() -> None:
    assert margin(0.4, [0.3, 0.5] * 200).over(0.4) == pytest.approx(0.0, abs=0.01)


def test_demand_that_was_present_already_needs_no_margin() -> None:
    """A pool is always sized for it, even if the forecast is lower."""
    made = Hindsight(memory_steps=DAY, lead_steps=5)
    for _ in range(200):
        made.learn(5.0, 10.0, 10.0)
    assert made.margin(ALLOWED, 200).over(5.0) == pytest.approx(0.0, abs=0.01)


def test_errors_older_than_the_memory_are_forgotten() -> None:
    made = hindsight(10.0, [90.0] * DAY + [10.5] * DAY)
    assert made.margin(ALLOWED, DAY).over(10.0) < 1.0


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.6])
def test_the_share_missed_becomes_the_share_allowed_whatever_the_noise(spread: float) -> None:
    chance = np.random.default_rng(3)
    learning = Hindsight(memory_steps=DAY, lead_steps=1)
    found, shares = Margin(), []
    for step in range(3 * DAY):
        demand = 100.0 * float(chance.lognormal(0.0, spread))
        shares.append(max(0.0, demand - 100.0 - found.over(100.0)))
        learning.learn(100.0, 0.0, demand)
        if step % 100 == 99:
            found = learning.margin(ALLOWED, learning.count)
    missed = sum(shares[DAY:]) / (2 * DAY * 100.0 * np.exp(spread**2 / 2))
    assert missed == pytest.approx(ALLOWED, abs=0.002)


def test_a_worker_that_takes_longer_to_start_needs_more_margin() -> None:
    def learnt(lead_steps: int) -> Margin:
        chance = np.random.default_rng(4)
        forecast, demand = Forecast(ForecastSettings(600.0, lead_steps)), 20.0
        for _ in range(290):
            demand = 20.0 + 0.95 * (demand - 20.0) + float(chance.normal(0.0, 1.0))
            forecast.learn(demand, Miss(0.0, ALLOWED))
        return forecast.margin

    assert learnt(6).over(20.0) > 1.2 * learnt(1).over(20.0)


def missed(learning: Allowance, demand: float, unserved: float, steps: int = 1) -> None:
    for _ in range(steps):
        learning.learn(demand, Miss(unserved, ALLOWED))


def test_more_misses_than_allowed_lower_the_target_and_steps_without_any_raise_it() -> None:
    learning = Allowance(day_steps=DAY)
    missed(learning, 5.0, 0.3, steps=20)
    lowered = learning.target
    assert lowered < ALLOWED
    missed(learning, 5.0, 0.0, steps=2 * DAY)
    assert lowered < learning.target


def test_no_event_moves_the_target_out_of_its_bounds() -> None:
    learning = Allowance(day_steps=DAY)
    missed(learning, 5.0, 1.0, steps=DAY)
    assert learning.target == pytest.approx(0.5 * ALLOWED)
    missed(learning, 5.0, 0.0, steps=20 * DAY)
    assert learning.target == pytest.approx(4.0 * ALLOWED)


def test_a_miss_at_night_counts_less_than_one_at_noon() -> None:
    noon, night = Allowance(day_steps=DAY), Allowance(day_steps=DAY)
    for learning, demand in ((noon, 10.0), (night, 0.1)):
        missed(learning, 10.0, ALLOWED, steps=200)
        missed(learning, demand, 0.5)
    assert noon.target < night.target
