"""From settings and a profile to how a pool is sized. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from auricle.planner.forecast import ForecastSettings
from auricle.planner.plan import PoolPlan
from auricle.planner.policy import PoolPolicy
from auricle.settings import PlannerSettings, PoolLimits


@dataclass(frozen=True)
class PoolSizing:
    """What an operator may say of a pool; see section `Planner` of the settings."""

    minimum: int
    maximum: int
    gpus: float
    target: float
    ebb_seconds: float
    settle_seconds: float
    quantile: float
    step_seconds: float

    @classmethod
    def of(cls, settings: PlannerSettings, limits: PoolLimits) -> PoolSizing:
        """What was set, for the pool with these limits."""
        return cls(
            minimum=limits.minimum,
            maximum=limits.maximum,
            gpus=limits.gpus,
            target=settings.target,
            ebb_seconds=settings.ebb_seconds,
            settle_seconds=settings.settle_seconds,
            quantile=settings.quantile,
            step_seconds=settings.step_seconds,
        )


def pool_plan(
    sizing: PoolSizing, pool: str, *, start_seconds: float, response_limit: float
) -> PoolPlan:
    """`start_seconds` from order to ready and `response_limit` at the knee are the profile's."""
    # One step more: a decision comes up to a step after what made it necessary.
    lead = math.ceil(start_seconds / sizing.step_seconds) + 1
    settle = math.ceil(sizing.settle_seconds / sizing.step_seconds)
    policy = PoolPolicy(
        name=pool,
        minimum=sizing.minimum,
        maximum=sizing.maximum,
        target=sizing.target,
        response_limit=response_limit,
        ebb_seconds=sizing.ebb_seconds,
        settle_seconds=sizing.settle_seconds,
        lead_steps=lead,
        # Lowered, a pool is not raised for `settle_seconds`, and then takes a start.
        look_steps=lead + settle,
    )
    forecast = ForecastSettings(sizing.step_seconds, lead, sizing.quantile)
    return PoolPlan(policy, forecast, sizing.gpus)
