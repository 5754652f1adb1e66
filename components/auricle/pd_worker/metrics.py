"""The PD worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.landing.metrics import LandingMetrics
from auricle.messages.decoding import DecodeReply
from auricle.pd_worker.engine import Decoded
from auricle.pd_worker.token_counters import TokenCounters
from auricle.process.metrics import ComponentMetrics


class PdWorkerMetrics:
    """Counts decodes and tokens, and shows requests; `landing` is of the embeddings."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "pd_worker")
        self._decodes = new.counter("decodes", "decode requests answered")
        self._tokens = TokenCounters(new, "decodes")
        self._prefilled = new.counter("prefilled_tokens", "prompt tokens prefilled")
        self.landing = LandingMetrics(new)
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent decodes")
        self.in_flight = new.gauge("requests_in_flight", "decodes under way")

    def decoded(self, reply: DecodeReply, decoded: Decoded) -> None:
        """Count one answered decode, and what the engine did for it."""
        self._decodes.inc()
        self._tokens.answered(decoded, len(reply.tokens))
        self._prefilled.inc(reply.prompt_tokens - reply.cached_tokens)
        self.landing.received(reply.embedding_bytes_read)
