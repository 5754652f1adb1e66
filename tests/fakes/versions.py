"""The versions of the instances that a test calls."""

from __future__ import annotations

from prometheus_client import Gauge

from auricle.dynamo.incompatible import Incompatible


def same_version(component: str = "worker") -> Incompatible:
    """No instance is known to have another version."""
    return Incompatible(component, Gauge("incompatible", "in discovery", registry=None))
