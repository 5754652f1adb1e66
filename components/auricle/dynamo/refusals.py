"""Counts the messages that this process does not accept."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry

from auricle.core.errors import OtherWireVersion, UntrustedCaller
from auricle.process.metrics import ComponentMetrics

log = logging.getLogger(__name__)


class Refusals:
    """The messages that this process did not accept. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._count = ComponentMetrics(registry, "internal").counter(
            "messages_refused",
            "messages not of this deployment, old, repeated, or of another version of the wire",
            "reason",
        )

    def add(self, receiver: str, error: UntrustedCaller | OtherWireVersion) -> None:
        """Count and log a message to `receiver`. The log shows a bounded number of such lines."""
        self._count.labels(error.reason).inc()
        log.warning("refused a message to %s: %s", receiver, error)
