"""Turns observations of all pools into decisions. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auricle.load.observations import PoolObservation, ServiceObservation
from auricle.planner.budget import Share, within_budget
from auricle.planner.decision import Decision
from auricle.planner.forecast import Forecast, ForecastSettings
from auricle.planner.policy import Memory, PoolPolicy, decide, demand_of, learnt, unserved_of

_DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class PoolPlan:
    """A pool's policy and forecast; `gpus` is what a replica takes of the GPU budget."""

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
        """Return the steps since the pool was last observed; at least 1, at most a day's."""
        step = self.plan.forecast.step_seconds
        since = step if self.seen_at is None else at - self.seen_at
        return min(max(1, round(since / step)), round(_DAY_SECONDS / step))


class Plan:
    """Sizes every pool independently, then applies the GPU budget, if there is one."""

    def __init__(
        self,
        pools: Sequence[PoolPlan],
        gpu_budget: float | None = None,
        machine_cores: int | None = None,
    ) -> None:
        """`machine_cores` are the cores that all workers share, None if each has its own.

        More workers than that slow each other down, so what they carry then says nothing about
        a worker.
        """
        self._pools = {p.policy.name: _Pool(p, Forecast(p.forecast)) for p in pools}
        self._budget = gpu_budget
        self._cores = machine_cores

    def decide(
        self, pools: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> dict[str, Decision]:
        """Decide one step, by pool; call it every `step_seconds` of the forecasts."""
        workers = sum(seen.replicas for seen in pools.values())
        learning = self._cores is None or workers <= self._cores
        wanted = {
            name: self._decide(self._pools[name], seen, service, learning)
            for name, seen in pools.items()
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
        """Return the observed capacity of a worker, as a share of the profile's."""
        return self._pools[pool].memory.knee.share

    def margin_level(self, pool: str) -> float:
        """Return the quantile of recent forecast errors that is the pool's margin."""
        return self._pools[pool].forecast.margin_level

    def forecast(self, pool: str) -> float:
        """Return the forecast demand, in workers, for when a worker started now is ready."""
        found = self._pools[pool]
        return found.forecast.most(found.plan.policy.lead_steps)

    @staticmethod
    def _decide(
        pool: _Pool, seen: PoolObservation, service: ServiceObservation, learning: bool
    ) -> Decision:
        demand = demand_of(seen, service)
        missed = unserved_of(pool.plan.policy, pool.memory, seen, service) if learning else None
        # Learn for unobserved steps too, so that the season stays aligned with the time of day;
        # what they missed is unknown.
        for _ in range(pool.steps_since(seen.at) - 1):
            pool.forecast.learn(demand)
        pool.forecast.learn(demand, missed)
        pool.seen_at = seen.at
        if learning:
            pool.memory = learnt(pool.plan.policy, pool.memory, seen)
        decision, pool.memory = decide(pool.plan.policy, pool.memory, seen, service, pool.forecast)
        return decision
