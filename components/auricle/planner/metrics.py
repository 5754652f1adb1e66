"""Metrics of what the planner observes and decides."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.load.observations import PoolObservation
from auricle.planner.decision import Decision
from auricle.process.metrics import ComponentMetrics


class PlannerMetrics:
    """Shows each pool's observation and decision, and whether this planner is the leader."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "planner")
        self._wanted = new.gauge("replicas_wanted", "replicas last decided", "pool")
        self._ready = new.gauge(
            "replicas_ready", "replicas that report load and are not draining", "pool"
        )
        self._load = new.gauge(
            "load", "work done, in workers at the saturation point of the profile", "pool"
        )
        self._forecast = new.gauge(
            "forecast", "forecast demand for when a replica started now is ready", "pool"
        )
        self._knee = new.gauge(
            "knee", "share of the profile's capacity that workers were observed to carry", "pool"
        )
        self._response = new.gauge(
            "response_seconds", "95th percentile of the pool's response time", "pool"
        )
        self._decisions = new.counter("decisions", "decisions, by reason", "pool", "why")
        self.leader = new.gauge("leader", "1 if this planner holds the lease and acts, else 0")

    def decided(
        self, seen: PoolObservation, decision: Decision, forecast: float, knee: float
    ) -> None:
        """Show one step's decision on one pool.

        `forecast` is in workers, `knee` a share of the profile's capacity.
        """
        pool = decision.pool
        self._wanted.labels(pool).set(decision.replicas)
        self._ready.labels(pool).set(seen.ready)
        self._load.labels(pool).set(seen.load)
        self._forecast.labels(pool).set(forecast)
        self._knee.labels(pool).set(knee)
        self._response.labels(pool).set(seen.response)
        self._decisions.labels(pool, decision.why).inc()
