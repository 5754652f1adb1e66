"""The size of one pool: from observations to replicas."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.plan import Plan, pool_plan
from auricle.planner.policy import Decision, Knee, corrected

pytestmark = pytest.mark.unit
STEP = 30.0
QUIET = ServiceObservation(active=100, speaking=50)


class Pool:
    """A pool under a plan: decided replicas are ready at the next step."""

    def __init__(
        self,
        replicas: int = 2,
        minimum: int = 1,
        maximum: int = 100,
        cores: int | None = None,
        **settings: object,
    ) -> None:
        limits = PoolLimits(minimum=minimum, maximum=maximum, gpus=1)
        plan = pool_plan(
            PlannerSettings.model_validate(settings),
            limits,
            "pd",
            start_seconds=60,
            response_limit=0.1,
        )
        self.plan = Plan([plan], machine_cores=cores)
        self.replicas = replicas
        self.at = 0.0
        self.sizes: list[int] = []

    def step(
        self,
        load: float,
        response: float = 0.05,
        service: ServiceObservation = QUIET,
        ready: int | None = None,
    ) -> Decision:
        self.at += STEP
        seen = PoolObservation(self.at, self.replicas, ready or self.replicas, load, response)
        decision = self.plan.decide({"pd": seen}, service)["pd"]
        self.replicas = decision.replicas
        self.sizes.append(self.replicas)
        return decision

    def steps(self, load: float, count: int) -> None:
        for _ in range(count):
            self.step(load)


def test_a_steady_load_gets_what_it_takes_and_keeps_it() -> None:
    pool = Pool(replicas=9)
    pool.steps(4.5, 40)
    assert pool.replicas == 5
    assert len(set(pool.sizes[-20:])) == 1


def test_more_load_is_met_at_once() -> None:
    pool = Pool(replicas=5)
    pool.steps(4.5, 20)
    decision = pool.step(8.2)
    assert decision.replicas >= 9
    assert decision.why == "forecast"


def test_a_rising_load_is_met_before_it_is_there() -> None:
    pool = Pool(replicas=5)
    pool.steps(4.0, 20)
    for n in range(1, 20):
        pool.step(4.0 + 0.2 * n)
    # A worker that is ordered now serves in three steps; demand will be 0.6 higher then.
    assert pool.replicas >= math.ceil(4.0 + 0.2 * 19 + 0.5)


def test_sessions_that_are_turned_away_count_as_load() -> None:
    pool = Pool(replicas=5)
    pool.steps(4.7, 20)
    crowd = ServiceObservation(active=100, speaking=50, waiting=100)
    decision = pool.step(4.8, service=crowd)
    assert decision.replicas >= 9
    assert decision.why == "overload"


def test_less_load_is_followed_slowly() -> None:
    pool = Pool(replicas=10)
    pool.steps(9.0, 20)
    before = pool.replicas
    pool.step(4.0)
    assert pool.replicas == before
    pool.steps(4.0, 20)
    assert pool.replicas == 5


def test_a_dip_shorter_than_it_takes_to_shrink_changes_nothing() -> None:
    pool = Pool(replicas=10)
    pool.steps(9.0, 20)
    before = pool.replicas
    for load in (5.0, 9.0, 5.0, 9.0, 5.0, 9.0):
        pool.step(load)
    assert pool.replicas == before


@pytest.mark.parametrize("idle_steps", [0, 1, 3, 10, 720])
def test_a_little_load_after_idle_orders_nobody(idle_steps: int) -> None:
    pool = Pool(replicas=1, maximum=8)
    pool.steps(0.0, idle_steps)
    for load in (0.19, 0.25, 0.3, 0.3, 0.35, 0.35, 0.4, 0.4, 0.4, 0.4):
        pool.step(load)
    assert set(pool.sizes) == {1}


def test_workers_that_share_too_few_cores_say_nothing_about_a_workers_capacity() -> None:
    crowded, roomy = Pool(replicas=4, cores=2), Pool(replicas=4, cores=4)
    for pool in (crowded, roomy):
        for _ in range(4):
            pool.step(3.3, response=0.5)
    assert crowded.plan.knee("pd") == 1.0
    assert roomy.plan.knee("pd") < 1.0


def test_one_machine_gets_at_most_a_worker_per_core_but_the_minimum_in_any_case() -> None:
    assert PoolLimits(maximum=8).on_one_machine(2).maximum == 2
    assert PoolLimits(maximum=8).on_one_machine(16).maximum == 8
    assert PoolLimits(minimum=3, maximum=8).on_one_machine(2).maximum == 3


@given(st.lists(st.floats(0.0, 20.0), min_size=4, max_size=40))
def test_a_pool_is_not_ordered_more_than_thrice_what_was_ever_asked_of_it(
    loads: list[float],
) -> None:
    pool = Pool(replicas=1)
    most = 0.0
    for load in loads:
        most = max(most, load)
        assert pool.step(load).replicas <= math.ceil(3 * most) + 1


@given(st.lists(st.floats(0.0, 50.0), min_size=30, max_size=80))
def test_no_decision_is_undone_within_two_minutes(loads: list[float]) -> None:
    pool = Pool(replicas=5)
    changes = []
    for load in loads:
        decision = pool.step(load)
        if decision.changes:
            changes.append((pool.at, decision))
    for (before, first), (after, second) in pairwise(changes):
        same_way = (first.replicas > first.was) == (second.replicas > second.was)
        assert same_way or after - before >= 120 or second.replicas > first.was


def test_growth_beyond_the_former_size_does_not_wait_for_a_scale_down_to_settle() -> None:
    pool = Pool(replicas=10)
    pool.steps(9.0, 20)
    while pool.replicas == 10:
        pool.step(4.0)
    assert pool.step(9.0).replicas < 10
    assert pool.step(14.0).replicas >= 14


@given(st.lists(st.floats(0.0, 500.0), min_size=1, max_size=40))
def test_a_pool_stays_within_its_bounds(loads: list[float]) -> None:
    pool = Pool(replicas=3, minimum=2, maximum=7)
    for load in loads:
        pool.step(load)
    assert all(2 <= size <= 7 for size in pool.sizes)


@pytest.mark.parametrize("load", [3.0, 500.0])
def test_more_than_is_allowed_is_taken_back_at_once(load: float) -> None:
    pool = Pool(replicas=10**9, maximum=7)
    decision = pool.step(load)
    assert (decision.replicas, decision.why) == (7, "bounds")
    assert "7 is the most allowed" in decision.line()


def test_every_decision_says_why_in_one_line() -> None:
    pool = Pool(replicas=5)
    pool.steps(4.5, 20)
    line = pool.step(8.2).line()
    assert line.startswith("pd: 5 → ")
    assert "demand 8.20" in line
    assert "\n" not in line


def test_a_capacity_that_the_profile_promises_too_high_is_learnt_from_the_first_waits() -> None:
    pool = Pool(replicas=5)
    pool.steps(4.5, 20)
    assert pool.replicas == 5
    # They complete no more than four workers' work, and all sessions wait.
    pool.step(4.0, response=0.3)
    pool.step(4.0, response=0.3)
    decision = pool.step(4.0, response=0.3)
    assert decision.replicas >= 6
    assert pool.plan.knee("pd") == pytest.approx(0.97 * 0.8)


def seen(load: float, response: float, at: float = 0.0) -> PoolObservation:
    return PoolObservation(at, replicas=10, ready=10, load=load, response=response)


def test_one_stall_teaches_nothing() -> None:
    knee = corrected(Knee(), seen(5.0, response=9.0), 0.1, 3600)
    assert knee.share == 1.0
    assert corrected(knee, seen(5.0, response=0.01), 0.1, 3600).late == 0


def test_workers_that_have_just_begun_to_serve_teach_nothing() -> None:
    knee = Knee()
    for ready in (4, 5, 6, 7):
        at_work = PoolObservation(0.0, replicas=8, ready=ready, load=3.5, response=9.0)
        knee = corrected(knee, at_work, 0.1, 3600)
    assert knee.share == 1.0


def test_a_knee_is_regained_slowly_by_nobody_waiting_near_it() -> None:
    knee = Knee(share=0.8)
    for hour in range(4):
        knee = corrected(knee, seen(7.9, response=0.02, at=3600.0 * hour), 0.1, 3600)
    assert knee.share == pytest.approx(0.83)


def test_nothing_is_learnt_of_a_knee_far_above() -> None:
    knee = Knee(share=0.8)
    for hour in range(4):
        knee = corrected(knee, seen(3.0, response=0.02, at=3600.0 * hour), 0.1, 3600)
    assert knee.share == 0.8


@pytest.mark.parametrize("sessions", [10, 16])
@pytest.mark.parametrize("cost", [0.019, 0.05, 0.08, 0.11])
@pytest.mark.parametrize("come_together", [1, 2, 5, 100])
@pytest.mark.parametrize("idle_steps", [0, 3, 10, 720])
def test_sessions_from_idle_and_back_order_no_worker_that_they_do_not_need(
    sessions: int, cost: float, come_together: int, idle_steps: int
) -> None:
    rising = [cost * min(sessions, n) for n in range(come_together, sessions, come_together)]
    there = [cost * sessions] * 20
    pool = Pool(replicas=1, maximum=8)
    for load in [0.0] * idle_steps + rising + there + rising[::-1]:
        pool.step(load)
    # Demand within a twentieth of a whole number of workers is rounded to it; see ROUNDING.
    assert max(pool.sizes) == max(1, math.ceil(cost * sessions - 0.05))
    pool.steps(0.0, 40)
    assert pool.replicas == 1


def test_misses_of_a_pool_at_its_maximum_teach_the_margin_nothing() -> None:
    bounded, free = Pool(replicas=2, maximum=2), Pool(replicas=2, maximum=50)
    crowd = ServiceObservation(active=100, speaking=50, waiting=100)
    for pool in (bounded, free):
        pool.steps(1.0, 10)
        before = pool.plan.tolerated("pd")
        for _ in range(200):
            pool.replicas = 2
            pool.step(2.0, service=crowd)
        assert (pool.plan.tolerated("pd") < before) == (pool is free)
