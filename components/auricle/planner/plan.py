"""All pools together: observations in, decisions out. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auricle.planner.budget import Share, within_budget
from auricle.planner.forecast import Forecast, ForecastSettings
from auricle.planner.observations import Decision, PoolObservation, ServiceObservation
from auricle.planner.policy import Memory, PoolPolicy, decide, demand_of

_DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class PoolPlan:
    """How a pool is sized, forecast, and what one replica takes of the GPU budget."""

    policy: PoolPolicy
    forecast: ForecastSettings
    gpus: float = 1.0


@dataclass
class _Pool:
    plan: PoolPlan
    forecast: Forecast
    memory: Memory = field(default_factory=Memory)
    seen_at: float | None = None

    def steps_since(self, at: float) -> int:
        """Of the forecast, since the pool was seen last; at least 1, at most a day's."""
        step = self.plan.forecast.step_seconds
        since = step if self.seen_at is None else at - self.seen_at
        return min(max(1, round(since / step)), round(_DAY_SECONDS / step))


class Plan:
    """Sizes every pool by itself; only a GPU budget, if there is one, ties them together."""

    def __init__(self, pools: Sequence[PoolPlan], gpu_budget: float | None = None) -> None:
        self._pools = {p.policy.name: _Pool(p, Forecast(p.forecast)) for p in pools}
        self._budget = gpu_budget

    def decide(
        self, pools: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> dict[str, Decision]:
        """One step: to be called every `step_seconds` of the forecasts."""
        wanted = {
            name: self._decide(self._pools[name], seen, service) for name, seen in pools.items()
        }
        if self._budget is None:
            return wanted
        shares = [
            Share(wanted[name], pool.plan.policy.minimum, pool.plan.gpus)
            for name, pool in self._pools.items()
            if name in wanted
        ]
        return within_budget(shares, self._budget)

    def knee(self, pool: str) -> float:
        """Of the profile's capacity, what a worker of the pool was found to carry."""
        return self._pools[pool].memory.knee.share

    def forecast(self, pool: str) -> float:
        """The demand to be expected when a worker asked for now serves."""
        found = self._pools[pool]
        return found.forecast.most(found.plan.policy.lead_steps)

    @staticmethod
    def _decide(pool: _Pool, seen: PoolObservation, service: ServiceObservation) -> Decision:
        # Steps in which the pool could not be seen count: what is like yesterday must stay so.
        for _ in range(pool.steps_since(seen.at)):
            pool.forecast.learn(demand_of(seen, service))
        pool.seen_at = seen.at
        decision, pool.memory = decide(pool.plan.policy, pool.memory, seen, service, pool.forecast)
        return decision
