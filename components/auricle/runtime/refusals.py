"""Counts the messages of untrusted callers, and logs them at a bounded rate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from auricle.errors import UntrustedCaller
from auricle.process.metrics import ComponentMetrics

log = logging.getLogger(__name__)
_LOG_SECONDS = 10.0


class Refusals:
    """The messages that this process did not accept. Thread-safe."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = ComponentMetrics(registry, "internal").counter(
            "messages_refused", "messages not of this deployment, old or repeated", "reason"
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._logged = float("-inf")
        self._unlogged = 0

    def add(self, receiver: str, error: UntrustedCaller) -> None:
        """Count a message to `receiver`; log it unless another one was logged in the last 10 s."""
        self._count.labels(error.reason).inc()
        with self._lock:
            now = self._clock()
            if now - self._logged < _LOG_SECONDS:
                self._unlogged += 1
                return
            others, self._unlogged, self._logged = self._unlogged, 0, now
        log.warning("refused a message to %s (and %d before): %s", receiver, others, error)
