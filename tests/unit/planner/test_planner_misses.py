"""Sessions without a worker: the pool that learns from them, and their permitted number."""

from __future__ import annotations

import pytest

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.plan import Plan, pool_plan

pytestmark = pytest.mark.unit
STEP = 30.0
POOLS = ("encode", "pd")


def plan(maximum: int = 100, gpus: tuple[float, float] = (1.0, 1.0)) -> Plan:
    return Plan(
        [
            pool_plan(
                PlannerSettings.model_validate({}),
                PoolLimits(maximum=maximum, gpus=each),
                pool,
                start_seconds=60,
                response_limit=0.1,
            )
            for pool, each in zip(POOLS, gpus, strict=True)
        ]
    )


def tolerated(
    made: Plan, demands: tuple[float, float], replicas: tuple[int, int] = (4, 4), steps: int = 50
) -> tuple[float, float]:
    """The shares that the margins may miss after some steps of this demand."""
    for step in range(steps):
        seen = {
            pool: PoolObservation(step * STEP, count, count, demand, 0.01)
            for pool, demand, count in zip(POOLS, demands, replicas, strict=True)
        }
        made.decide(seen, ServiceObservation(10, 5))
    encode, pd = (made.tolerated(pool) for pool in POOLS)
    return encode, pd


def test_a_shortage_that_another_pools_hides_is_no_reason_for_more_margin() -> None:
    before, _ = tolerated(plan(), (3.0, 3.0), steps=1)
    encode, pd = tolerated(plan(), (5.0, 8.0))
    assert encode >= before > pd


def test_a_pool_at_its_maximum_learns_nothing_and_hides_the_others_shortage() -> None:
    bounded = plan(maximum=4)
    before = tolerated(bounded, (3.0, 3.0), steps=1)
    assert before == tolerated(bounded, (5.0, 8.0))


@pytest.mark.parametrize(
    ("replicas", "gpus"), [((1, 4), (1.0, 1.0)), ((4, 4), (0.25, 1.0))], ids=["number", "size"]
)
def test_the_pool_that_costs_more_may_miss_more(
    replicas: tuple[int, int], gpus: tuple[float, float]
) -> None:
    encode, pd = tolerated(plan(gpus=gpus), (0.5, 0.5), replicas)
    assert encode == pytest.approx(pd / 4, rel=0.05)
