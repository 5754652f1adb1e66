"""What the PD worker counts."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.messages import DecodeReply


class PdWorkerMetrics:
    """Counters of decodes, prompt tokens and embedding bytes."""

    def __init__(self, registry: CollectorRegistry, slots_in_use: Callable[[], float]) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"auricle_pd_worker_{name}", text, registry=registry)

        self._decodes = counter("decodes", "decode requests answered")
        self._prompt = counter("prompt_tokens", "prompt tokens of all decodes")
        self._cached = counter("cached_tokens", "prompt tokens found in the KV cache")
        self._output = counter("output_tokens", "tokens generated")
        self._bytes = counter("embedding_read_bytes", "slot bytes read over NIXL")
        slots = Gauge(
            "auricle_pd_worker_landing_slots_in_use",
            "landing slots with content",
            registry=registry,
        )
        slots.set_function(slots_in_use)
        self.in_flight = Gauge(
            "auricle_pd_worker_requests_in_flight", "decodes under way", registry=registry
        )

    def decoded(self, reply: DecodeReply) -> None:
        """One decode was answered."""
        self._decodes.inc()
        self._prompt.inc(reply.prompt_tokens)
        self._cached.inc(reply.cached_tokens)
        self._output.inc(len(reply.tokens))
        self._bytes.inc(reply.embedding_bytes_read)
