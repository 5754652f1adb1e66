"""Turns observations of all pools into decisions. No clock, no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auricle.load.observations import PoolObservation, ServiceObservation
from auricle.planner.budget import Share, within_budget
from auricle.planner.decision import Decision
from auricle.planner.forecast import Forecast, ForecastSettings
from auricle.planner.margin import Miss
from auricle.planner.policy import Memory, PoolPolicy, decide, demand_of, learnt, unserved_of

_DAY_SECONDS = 86_400.0
# Clients are refused for want of text's pools, never for want of those beside the path.
_NOBODY_REFUSED = ServiceObservation(active=0, speaking=0)


@dataclass(frozen=True)
class PoolPlan:
    """A pool's policy and forecast.

    `allowed` is the share of the service's demand that may find no worker, in all pools together.
    `gpus` is what a replica takes of the GPU budget. `asked` is what sessions ask the pool for,
    empty for a pool that every session needs; pools of one group are needed together.
    """

    policy: PoolPolicy
    forecast: ForecastSettings
    allowed: float
    gpus: float = 1.0
    asked: str = ""


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
        wanted: dict[str, Decision] = {}
        for asked, group in self._groups(pools).items():
            refused = _NOBODY_REFUSED if asked else service
            misses = self._misses(group, refused) if learning else {}
            for name, seen in group.items():
                miss = misses.get(name)
                wanted[name] = self._decide(self._pools[name], seen, refused, miss, learning)
        return wanted if self._budget is None else self._affordable(wanted, self._budget)

    def _groups(
        self, pools: Mapping[str, PoolObservation]
    ) -> dict[str, dict[str, PoolObservation]]:
        """Return the pools that are needed together, those of text ("") first."""
        groups: defaultdict[str, dict[str, PoolObservation]] = defaultdict(dict)
        for name, seen in sorted(pools.items(), key=lambda one: self._asked(one[0]) != ""):
            groups[self._asked(name)][name] = seen
        return groups

    def _asked(self, name: str) -> str:
        return self._pools[name].plan.asked

    def _affordable(self, wanted: Mapping[str, Decision], budget: float) -> dict[str, Decision]:
        """Fit the decisions into the budget: text's pools first, and what they leave is words'."""
        groups: defaultdict[str, list[Share]] = defaultdict(list)
        for name, decision in wanted.items():
            plan = self._pools[name].plan
            groups[plan.asked].append(Share(decision, plan.policy.minimum, plan.gpus))
        # A minimum is kept whatever it takes, so it is set aside.
        left = budget - sum(_least(shares) for asked, shares in groups.items() if asked)
        found: dict[str, Decision] = {}
        for asked, shares in groups.items():
            left += _least(shares) if asked else 0.0
            given = within_budget(shares, left)
            found |= given
            left -= sum(s.gpus * given[s.decision.pool].replicas for s in shares)
        return found

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

    def _misses(
        self, pools: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> dict[str, Miss | None]:
        """Return what each pool may learn from the sessions that found no worker.

        `pools` are needed together, so what is missed is what the shortest of them misses, and only
        its margin could have helped. Of the misses allowed, each pool may cause what it is of the
        costs: that is the cheapest division if all demands are equally hard to foresee.
        """
        unserved = {
            name: unserved_of(self._pools[name].memory, seen, service)
            for name, seen in pools.items()
        }
        shortest = max(unserved, key=lambda name: unserved[name], default="")
        costs = {n: self._pools[n].plan.gpus * max(seen.replicas, 1) for n, seen in pools.items()}
        misses: dict[str, Miss | None] = {}
        for name, seen in pools.items():
            plan = self._pools[name].plan
            missed = max(0.0, unserved[name]) if name == shortest else 0.0
            part = costs[name] / sum(costs.values())
            # A pool at its maximum could not have grown, whatever its margin, and one that was
            # empty because nobody asked is no bad forecast.
            bounded = unserved[name] > 0 and seen.replicas >= plan.policy.maximum
            empty = seen.ready == 0 and plan.policy.minimum == 0
            misses[name] = None if bounded or empty else Miss(missed, plan.allowed * part)
        return misses

    @staticmethod
    def _decide(
        pool: _Pool,
        seen: PoolObservation,
        service: ServiceObservation,
        miss: Miss | None,
        learning: bool,
    ) -> Decision:
        demand = demand_of(seen, service)
        # Learn for unobserved steps too, so that the season stays aligned with the time of day;
        # what they missed is unknown.
        for _ in range(pool.steps_since(seen.at) - 1):
            pool.forecast.learn(demand)
        pool.forecast.learn(demand, miss)
        pool.seen_at = seen.at
        if learning:
            pool.memory = learnt(pool.plan.policy, pool.memory, seen)
        decision, pool.memory = decide(pool.plan.policy, pool.memory, seen, service, pool.forecast)
        return decision


def _least(shares: Iterable[Share]) -> float:
    """Return the GPUs that the minima of some pools take."""
    return sum(share.gpus * min(share.minimum, share.decision.replicas) for share in shares)
