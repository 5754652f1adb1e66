"""The PD worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.messages import DecodeReply
from auricle.pd_worker.engine import Decoded
from auricle.pd_worker.token_counters import TokenCounters
from auricle.process.metrics import ComponentMetrics


class PdWorkerMetrics:
    """Counts decodes, tokens and embedding bytes, and shows requests and landing slots."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "pd_worker")
        self._decodes = new.counter("decodes", "decode requests answered")
        self._tokens = TokenCounters(new, "decodes")
        self._prefilled = new.counter("prefilled_tokens", "prompt tokens prefilled")
        self._bytes = new.counter(
            "received_bytes", "embeddings read, slot headers included, by transport", "transport"
        )
        self.slots = new.gauge("landing_slots", "landing slots")
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent decodes")
        self.slots_in_use = new.gauge("landing_slots_in_use", "landing slots with content")
        self.in_flight = new.gauge("requests_in_flight", "decodes under way")
        self.read_seconds = new.histogram(
            "read_seconds",
            "duration of a NIXL read, verification included",
            (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
        )

    def decoded(self, reply: DecodeReply, decoded: Decoded) -> None:
        """Count one answered decode, and what the engine did for it."""
        self._decodes.inc()
        self._tokens.answered(decoded, len(reply.tokens))
        self._prefilled.inc(reply.prompt_tokens - reply.cached_tokens)
        self._bytes.labels("nixl").inc(reply.embedding_bytes_read)
