"""Prometheus metrics: one registry per process, names `auricle_<component>_<what>_<unit>`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest


class Registry:
    """This process's own metrics, as Prometheus text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def text(self) -> str:
        """Exposition format."""
        return generate_latest(self.registry).decode()
