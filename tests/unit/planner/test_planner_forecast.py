"""Forecasts of a pool's demand: trend, time of day, and a margin for errors."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.forecast import Forecast, ForecastSettings, Miss
from auricle.planner.plan import Plan, pool_plan

pytestmark = pytest.mark.unit
STEP, DAY = 600.0, 144  # ten minutes, so that days are short
SETTINGS = ForecastSettings(step_seconds=STEP, lead_steps=3)


def day(step: int) -> float:
    """A night and a morning that begins from one step to the next."""
    return 10.0 if 48 <= step % DAY < 120 else 2.0


def learnt(steps: int) -> Forecast:
    forecast = Forecast(SETTINGS)
    for step in range(steps):
        forecast.learn(day(step), Miss(0.0, 0.005))
    return forecast


def test_a_morning_is_foreseen_once_it_has_been_seen() -> None:
    assert learnt(47).most(3) < 3.0  # the first day: no precedent
    second = learnt(DAY + 47)
    assert second.seasonal
    assert second.most(3) == pytest.approx(10.0, rel=0.15)
    assert learnt(DAY + 30).most(3) < 3.0  # and not too early


def test_a_line_is_followed_but_not_for_ever() -> None:
    forecast = Forecast(SETTINGS)
    for step in range(20):
        forecast.learn(5.0 + step)
    assert forecast.most(3) >= 26.0
    for _ in range(3):
        forecast.learn(200.0)
    assert forecast.most(3) <= 2 * 200.0


def test_a_noisy_demand_gets_more_room_than_a_steady_one() -> None:
    chance = np.random.default_rng(0)
    steady, noisy = Forecast(SETTINGS), Forecast(SETTINGS)
    for _ in range(300):
        steady.learn(10 * chance.normal(1, 0.01), Miss(0.0, 0.005))
        noisy.learn(10 * chance.normal(1, 0.2), Miss(0.0, 0.005))
    assert 0.0 <= steady.margin.over(10.0) < 0.5 < noisy.margin.over(10.0)


def test_steps_that_were_missed_do_not_move_the_time_of_day() -> None:
    limits = PoolLimits.model_validate({"maximum": 50})
    settings = PlannerSettings.model_validate({}).model_copy(update={"step_seconds": STEP})
    plan = pool_plan(settings, limits, "pd", start_seconds=600, response_limit=0.1)
    whole, gaps = Plan([plan]), Plan([plan])
    service = ServiceObservation(10, 5)
    for step in range(2 * DAY + 47):
        seen = {"pd": PoolObservation(step * STEP, 12, 12, day(step), 0.01)}
        whole.decide(seen, service)
        if not 20 <= step % DAY < 40:  # no reports for some hours every night
            gaps.decide(seen, service)
    assert gaps.forecast("pd") == pytest.approx(whole.forecast("pd"), rel=0.05)
    assert gaps.forecast("pd") > 8.0


def test_before_anything_was_seen_there_is_nothing_to_expect() -> None:
    forecast = Forecast(SETTINGS)
    assert forecast.most(3) < 0.01
    forecast.learn(4.0)
    assert forecast.most(3) == pytest.approx(4.0)
