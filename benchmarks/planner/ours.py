"""auricle's planner as a controller of the simulated service: the product's own code."""

from __future__ import annotations

from collections.abc import Mapping

from auricle.config.common import PoolLimits
from auricle.config.settings import PlannerSettings
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.plan import Plan, pool_plan
from benchmarks.planner.cluster import POOLS, RESPONSE_LIMIT, START_SECONDS, Clients, Reading


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

    def __call__(self, seen: Mapping[str, Reading], clients: Clients) -> Mapping[str, float]:
        pools = {
            name: PoolObservation(
                at=pool.at,
                replicas=int(pool.replicas[0]),
                ready=int(pool.ready[0]),
                load=float(pool.load[0]),
                response=float(pool.response[0]),
            )
            for name, pool in seen.items()
        }
        service = ServiceObservation(
            int(clients.active[0]), int(clients.speaking[0]), float(clients.waiting[0])
        )
        return {name: one.replicas for name, one in self._plan.decide(pools, service).items()}
