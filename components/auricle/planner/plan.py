"""Turns observations of all pools into decisions. No clock, no I/O."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.forecast import Forecast, ForecastSettings, Miss
from auricle.planner.policy import (
    Decision,
    Memory,
    PoolPolicy,
    decide,
    demand_of,
    learnt,
    unserved_of,
)

# Divides a GPU budget between pools that exceed it together. No I/O.


@dataclass(frozen=True)
class Share:
    """A pool's claim on the budget: at least `minimum` replicas, of `gpus` GPUs each."""

    decision: Decision
    minimum: int
    gpus: float = 1.0


def within_budget(shares: Sequence[Share], gpus: float) -> dict[str, Decision]:
    """Return the decisions by pool, reduced so that all replicas together fit into `gpus`.

    Every session needs all pools, so the pool with the smallest share of its wanted replicas limits
    the sessions served; each GPU goes to that pool until it no longer fits there. The minimum
    replicas are kept even if they exceed the budget.
    """
    wanted = {s.decision.pool: s.decision.replicas for s in shares}
    if sum(s.gpus * wanted[s.decision.pool] for s in shares) <= gpus:
        return {s.decision.pool: s.decision for s in shares}
    given = {s.decision.pool: min(s.minimum, s.decision.replicas) for s in shares}
    left = gpus - sum(s.gpus * given[s.decision.pool] for s in shares)
    while (short := _shortest(shares, given, left)) is not None:
        given[short.decision.pool] += 1
        left -= short.gpus
    return {s.decision.pool: _cut(s.decision, given[s.decision.pool], gpus) for s in shares}


def _shortest(shares: Sequence[Share], given: Mapping[str, int], left: float) -> Share | None:
    """Return the pool with the smallest share of its wanted replicas, if `left` suffices for it."""
    short = [s for s in shares if given[s.decision.pool] < s.decision.replicas]
    if not short:
        return None
    least = min(short, key=lambda s: given[s.decision.pool] / s.decision.replicas)
    # A GPU for the other pool would not serve more sessions, so it stays free.
    return least if least.gpus <= left else None


def _cut(decision: Decision, given: int, gpus: float) -> Decision:
    if given == decision.replicas:
        return decision
    detail = f"{decision.detail}; wanted {decision.replicas}, {gpus:g} GPUs for all pools"
    return replace(decision, replicas=given, why="budget", detail=detail)


_DAY_SECONDS = 86_400.0
# Clients are refused if required pools are full, never because of optional ones.
_NO_REFUSALS = ServiceObservation(active=0, speaking=0)


@dataclass(frozen=True)
class PoolPlan:
    """A pool's policy and forecast.

    `allowed` is the share of the service's demand that may find no worker, in all pools together.
    `gpus` is a replica's part of the GPU budget. `annotation` names the addition of an optional
    pool to text, empty for a required pool; pools with the same value are needed together.
    """

    policy: PoolPolicy
    forecast: ForecastSettings
    allowed: float
    gpus: float = 1.0
    annotation: str = ""


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

        More workers than cores slow each other down, so the capacity of a worker is then not
        learnt.
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
        for annotation, group in self._groups(pools).items():
            refused = _NO_REFUSALS if annotation else service
            misses = self._misses(group, refused) if learning else {}
            for name, seen in group.items():
                miss = misses.get(name)
                wanted[name] = self._decide(self._pools[name], seen, refused, miss, learning)
        return wanted if self._budget is None else self._affordable(wanted, self._budget)

    def _groups(
        self, pools: Mapping[str, PoolObservation]
    ) -> dict[str, dict[str, PoolObservation]]:
        """Return the pools that are needed together, the required pools ("") first."""
        groups: defaultdict[str, dict[str, PoolObservation]] = defaultdict(dict)
        for name, seen in sorted(pools.items(), key=lambda one: self._annotation(one[0]) != ""):
            groups[self._annotation(name)][name] = seen
        return groups

    def _annotation(self, name: str) -> str:
        return self._pools[name].plan.annotation

    def _affordable(self, wanted: Mapping[str, Decision], budget: float) -> dict[str, Decision]:
        """Fit the decisions into the budget, the required pools first."""
        groups: defaultdict[str, list[Share]] = defaultdict(list)
        for name, decision in wanted.items():
            plan = self._pools[name].plan
            groups[plan.annotation].append(Share(decision, plan.policy.minimum, plan.gpus))
        # A minimum is kept whatever it takes, so it is set aside.
        left = budget - sum(_least(shares) for optional, shares in groups.items() if optional)
        found: dict[str, Decision] = {}
        for optional, shares in groups.items():
            left += _least(shares) if optional else 0.0
            given = within_budget(shares, left)
            found |= given
            left -= sum(s.gpus * given[s.decision.pool].replicas for s in shares)
        return found

    def knee(self, pool: str) -> float:
        """Return the observed capacity of a worker, as a share of the profile's."""
        return self._pools[pool].memory.knee.share

    def tolerated(self, pool: str) -> float:
        """Return the share of the demand that the pool's margin may miss in hindsight."""
        return self._pools[pool].forecast.tolerated

    def forecast(self, pool: str) -> float:
        """Return the forecast demand, in workers, for when a worker started now is ready."""
        found = self._pools[pool]
        return found.forecast.most(found.plan.policy.lead_steps)

    def _misses(
        self, pools: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> dict[str, Miss | None]:
        """Return the misses from which each pool learns, None if a margin could not have helped.

        `pools` are needed together, so the shortest pool determines the misses, and only its margin
        could have helped. Each pool may cause its share of the costs of the allowed misses: this is
        the cheapest division if all demands are equally hard to forecast.
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
            # A larger margin would not have helped a pool at its maximum, nor one that was empty
            # because it was not in demand.
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
        # their misses are unknown.
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


# Derives a pool's plan from settings and capacity profile. No I/O.

# The share of the misses allowed by the SLO that is spent. The rest is a reserve: days differ.
_SPENT = 0.75


def pool_plan(
    settings: PlannerSettings,
    limits: PoolLimits,
    pool: str,
    *,
    start_seconds: float,
    response_limit: float,
    annotation: str = "",
) -> PoolPlan:
    """Derive the plan of one pool.

    `start_seconds` is the time from starting a worker until it is ready, `response_limit` the
    95th percentile response time at the knee, in seconds; both come from the profile. `annotation`
    is as in `PoolPlan`.
    """
    # One step more, because a decision follows its cause by up to a step.
    lead = math.ceil(start_seconds / settings.step_seconds) + 1
    settle_steps = math.ceil(settings.settle_seconds / settings.step_seconds)
    policy = PoolPolicy(
        name=pool,
        minimum=limits.minimum,
        maximum=limits.maximum,
        target=settings.target,
        response_limit=response_limit,
        ebb_seconds=settings.ebb_seconds,
        settle_seconds=settings.settle_seconds,
        lead_steps=lead,
        # A scale-down is not undone for `settle_seconds`; then a worker starts.
        scale_down_steps=lead + settle_steps,
    )
    forecast = ForecastSettings(settings.step_seconds, lead)
    return PoolPlan(policy, forecast, _SPENT * (1.0 - settings.slo), limits.gpus, annotation)
