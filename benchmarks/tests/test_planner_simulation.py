"""The simulation that scores the planner, compared with values that are calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.planner.cluster import DRAIN_SECONDS, START_SECONDS, run
from benchmarks.planner.figures import reversals
from benchmarks.planner.rivals import HPA_GRID, Static, clairvoyant_hours, hpa_runs, peak_sizing
from benchmarks.planner.traces import SCORED_FROM, STEP_SECONDS, Trace, make

pytestmark = pytest.mark.unit
STEPS = SCORED_FROM + 4 * 360  # a day for learning, four hours that count
HOURS = 4.0


def trace(encode: np.ndarray, pd: np.ndarray) -> Trace:
    return Trace("test", 100 * pd, 50 * pd, encode, pd)


def constant(value: float) -> np.ndarray:
    return np.full(STEPS, value)


def test_enough_workers_serve_everybody_and_are_paid_for() -> None:
    found = run(trace(constant(1.5), constant(3.5)), Static({"encode": 2, "pd": 4}))
    assert found.slo == 1.0
    assert found.gpu_hours == pytest.approx(6 * HOURS)


def test_the_pool_with_the_smaller_part_of_what_it_needs_decides_how_many_are_served() -> None:
    found = run(trace(constant(2.0), constant(4.0)), Static({"encode": 2, "pd": 3}))
    assert found.slo == pytest.approx(0.75)


def test_a_worker_serves_once_it_has_started_and_is_paid_for_from_the_order_to_its_end() -> None:
    at = SCORED_FROM * STEP_SECONDS + 3600

    def once(seen, service):  # type: ignore[no-untyped-def]
        now = seen["pd"].at
        return {"encode": 1, "pd": 2 if at <= now < at + 3600 else 1}

    found = run(trace(constant(1.0), constant(2.0)), once)
    served = (3600 - START_SECONDS["pd"]) / (HOURS * 3600)
    assert found.slo == pytest.approx(0.5 + 0.5 * served, abs=0.002)
    assert found.gpu_hours == pytest.approx(2 * HOURS + 1 + DRAIN_SECONDS / 3600, abs=0.02)
    assert reversals(found) == 0


def test_every_signal_has_the_same_noise_whoever_reads_it() -> None:
    seen = []

    def watching(pools, service):  # type: ignore[no-untyped-def]
        seen.append((float(pools["pd"].load[0]), float(pools["pd"].response[0])))
        return {}

    run(trace(constant(0.5), constant(0.5)), watching)
    load, response = (np.std(values) / np.mean(values) for values in np.array(seen).T)
    assert response == pytest.approx(load, rel=0.2)


def test_runs_that_are_simulated_together_are_the_runs_that_are_simulated_alone() -> None:
    flash = trace(*2 * [1.0 + 3.0 * (np.arange(STEPS) % 700 > 500)])
    chosen = HPA_GRID[:2]
    together = hpa_runs(flash, chosen)
    assert [one.score for one in together] == [hpa_runs(flash, [how])[0].score for how in chosen]
    assert len({one.score for one in together}) == len(chosen)


def test_an_order_that_goes_back_within_two_minutes_is_a_reversal() -> None:
    begin = SCORED_FROM * STEP_SECONDS

    def wavering(seen, service):  # type: ignore[no-untyped-def]
        now = seen["pd"].at
        return {"encode": 1, "pd": 2 if begin <= now < begin + 90 else 1}

    assert reversals(run(trace(constant(0.5), constant(0.5)), wavering)) == 1


def test_who_knows_a_steady_trace_needs_exactly_what_it_asks_for() -> None:
    """It needs all of the demand, except for the hundredth that need not be served."""
    hours = clairvoyant_hours(trace(constant(2.0), constant(5.0)), slo=0.99)
    assert 0.98 * 7 * HOURS <= hours <= 7 * HOURS


def test_who_knows_the_trace_keeps_a_worker_over_a_gap_that_is_shorter_than_its_start() -> None:
    demand = constant(1.0)
    demand[SCORED_FROM + 360 : SCORED_FROM + 366] = 1e-6  # a minute; a PD worker starts in two
    kept = clairvoyant_hours(trace(demand, demand), slo=1.0)
    assert kept == pytest.approx(2 * HOURS, rel=0.01)
    demand[SCORED_FROM + 360 : SCORED_FROM + 720] = 1e-6  # an hour
    let_go = clairvoyant_hours(trace(demand, demand), slo=1.0)
    starts = sum(START_SECONDS.values()) / 3600
    assert let_go == pytest.approx(2 * (HOURS - 1) + starts, rel=0.02)


def test_nobody_can_do_with_less_than_who_knows_the_trace() -> None:
    for name in ("flash", "meetings"):
        real = make(name, 8, seed=1)
        static = peak_sizing(real)
        assert clairvoyant_hours(real, 0.99) <= run(real, static).gpu_hours


def test_the_same_seed_gives_the_same_trace() -> None:
    one, same, other = make("diurnal", 8, 1), make("diurnal", 8, 1), make("diurnal", 8, 2)
    assert np.array_equal(one.pd, same.pd)
    assert not np.array_equal(one.pd, other.pd)
