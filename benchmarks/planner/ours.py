"""auricle's planner as a controller of the simulated service: the product's own code."""

from __future__ import annotations

from collections.abc import Mapping

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.plan import Plan, pool_plan
from auricle.planner.policy import Decision
from benchmarks.planner.cluster import POOLS, RESPONSE_LIMIT, START_SECONDS


class Ours:
    """The planner with the defaults of section `Planner` and the pool's start-up time."""

    def __init__(self, maximum: int, slo: float | None = None) -> None:
        settings = PlannerSettings.model_validate({} if slo is None else {"slo": slo})
        limits = PoolLimits.model_validate({"maximum": maximum})
        self._plan = Plan(
            [
                pool_plan(
                    settings,
                    limits,
                    pool,
                    start_seconds=START_SECONDS[pool],
                    response_limit=RESPONSE_LIMIT[pool],
                )
                for pool in POOLS
            ],
        )
        self.decisions: list[Decision] = []

    def __call__(
        self, seen: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> Mapping[str, int]:
        decided = self._plan.decide(seen, service)
        self.decisions += [d for d in decided.values() if d.changes]
        return {name: decision.replicas for name, decision in decided.items()}
