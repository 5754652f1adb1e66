"""The translate worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.messages.translating import TranslateReply
from auricle.pd_worker.engine import Decoded
from auricle.pd_worker.token_counters import TokenCounters
from auricle.process.metrics import ComponentMetrics


class TranslateWorkerMetrics:
    """Counts translations and tokens, and shows requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "translate_worker")
        self._translations = new.counter("translations", "translate requests answered")
        self._tokens = TokenCounters(new, "translations")
        self._seconds = new.histogram(
            "translation_seconds",
            "time from a request's arrival to its reply",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests under way")

    def translated(self, reply: TranslateReply, decoded: Decoded) -> None:
        """Count one answered request, and what the engine did for it."""
        self._translations.inc()
        self._tokens.answered(decoded, len(decoded.tokens))
        self._seconds.observe(reply.seconds)
