"""Derives a pool's plan from settings and capacity profile. No I/O."""

from __future__ import annotations

import math

from auricle.planner.forecast import ForecastSettings
from auricle.planner.plan import PoolPlan
from auricle.planner.policy import PoolPolicy
from auricle.replicas import PoolLimits
from auricle.settings import PlannerSettings

# Of the misses that the SLO allows, what is spent. Not all: the margin learns from misses, so it
# comes after them, and no day is like the mean.
_SPENT = 0.65


def pool_plan(
    settings: PlannerSettings,
    limits: PoolLimits,
    pool: str,
    *,
    start_seconds: float,
    response_limit: float,
    asked: str = "",
) -> PoolPlan:
    """Derive the plan of one pool.

    `start_seconds` is the time from starting a worker until it is ready, `response_limit` the
    95th percentile response time at the knee, in seconds; both come from the profile. `asked` is
    what sessions ask the pool for, empty for a pool that every session needs.
    """
    # One step more, because a decision follows its cause by up to a step.
    lead = math.ceil(start_seconds / settings.step_seconds) + 1
    settle = math.ceil(settings.settle_seconds / settings.step_seconds)
    policy = PoolPolicy(
        name=pool,
        minimum=limits.minimum,
        maximum=limits.maximum,
        target=settings.target,
        response_limit=response_limit,
        ebb_seconds=settings.ebb_seconds,
        settle_seconds=settings.settle_seconds,
        lead_steps=lead,
        # After a scale-down, a pool is not scaled up for `settle_seconds`; then a worker starts.
        look_steps=lead + settle,
    )
    forecast = ForecastSettings(settings.step_seconds, lead)
    return PoolPlan(policy, forecast, _SPENT * (1.0 - settings.slo), limits.gpus, asked)
