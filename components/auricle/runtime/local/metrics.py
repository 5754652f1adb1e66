"""Counts what comes over this process's own socket."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.process.metrics import ComponentMetrics


class LocalMetrics:
    """Calls and connections from other processes of the machine."""

    def __init__(self, registry: CollectorRegistry) -> None:
        metrics = ComponentMetrics(registry, "internal")
        self.calls = metrics.counter("local_calls", "calls from processes of this machine")
        self.in_flight = metrics.gauge("local_calls_in_flight", "of them, not answered yet")
        self.connections = metrics.gauge("local_connections", "processes that are connected")
