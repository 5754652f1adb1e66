"""The PD worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.messages import DecodeReply
from auricle.process.metrics import ComponentMetrics


class PdWorkerMetrics:
    """Counts decodes, tokens and embedding bytes, and shows requests and landing slots."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "pd_worker")
        self._decodes = new.counter("decodes", "decode requests answered")
        self._prompt = new.counter("prompt_tokens", "prompt tokens of all decodes")
        self._cached = new.counter("cached_tokens", "prompt tokens found in the KV cache")
        self._prefilled = new.counter("prefilled_tokens", "prompt tokens prefilled")
        self._output = new.counter("output_tokens", "tokens generated")
        self._steps = new.counter(
            "decode_steps", "decode steps, counted once for each request in a step"
        )
        self._drafted = new.counter(
            "draft_tokens", "draft tokens (of the previous hypothesis) verified"
        )
        self._accepted = new.counter("accepted_tokens", "draft tokens accepted")
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

    def decoded(self, reply: DecodeReply, drafted: int, accepted: int) -> None:
        """Count one answered decode; `accepted` of its `drafted` tokens passed verification."""
        self._decodes.inc()
        self._prompt.inc(reply.prompt_tokens)
        self._cached.inc(reply.cached_tokens)
        self._prefilled.inc(reply.prompt_tokens - reply.cached_tokens)
        self._output.inc(len(reply.tokens))
        self._steps.inc(reply.steps)
        self._drafted.inc(drafted)
        self._accepted.inc(accepted)
        self._bytes.labels("nixl").inc(reply.embedding_bytes_read)
