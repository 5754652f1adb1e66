"""What the planner saw and decided."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.planner.observations import Decision, PoolObservation


class PlannerMetrics:
    """By pool; and whether this planner is the one that acts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"auricle_planner_{name}", text, ["pool"], registry=registry)

        self._wanted = gauge("replicas_wanted", "as decided last")
        self._ready = gauge("replicas_ready", "that report and are not draining")
        self._load = gauge("load", "work done, in workers at the profile's knee")
        self._forecast = gauge("forecast", "demand when a worker asked for now serves")
        self._knee = gauge("knee", "of the profile's capacity, what workers were found to carry")
        self._response = gauge("response_seconds", "of the pool, 95th percentile")
        self._decisions = Counter(
            "auricle_planner_decisions",
            "decisions, by reason",
            ["pool", "why"],
            registry=registry,
        )
        self.leader = Gauge(
            "auricle_planner_leader", "1 where this planner is the one that acts", registry=registry
        )

    def decided(
        self, seen: PoolObservation, decision: Decision, forecast: float, knee: float
    ) -> None:
        """One pool, one step."""
        pool = decision.pool
        self._wanted.labels(pool).set(decision.replicas)
        self._ready.labels(pool).set(seen.ready)
        self._load.labels(pool).set(seen.load)
        self._forecast.labels(pool).set(forecast)
        self._knee.labels(pool).set(knee)
        self._response.labels(pool).set(seen.response)
        self._decisions.labels(pool, decision.why).inc()
