"""What the PD worker counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from auricle.messages import DecodeReply


class PdWorkerMetrics:
    """Counters of decodes, prompt tokens and embedding bytes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"auricle_pd_worker_{name}", text, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"auricle_pd_worker_{name}", text, registry=registry)

        self._decodes = counter("decodes", "decode requests answered")
        self._prompt = counter("prompt_tokens", "prompt tokens of all decodes")
        self._cached = counter("cached_tokens", "prompt tokens found in the KV cache")
        self._prefilled = counter("prefilled_tokens", "prompt tokens computed")
        self._output = counter("output_tokens", "tokens generated")
        self._steps = counter("decode_steps", "forward passes that gave output, per request")
        self._drafted = counter("draft_tokens", "tokens of earlier hypotheses verified")
        self._accepted = counter("accepted_tokens", "of those, the ones that were right")
        self._bytes = Counter(
            "auricle_pd_worker_received_bytes",
            "slots with embeddings read, by transport",
            ["transport"],
            registry=registry,
        )
        self.slots = gauge("landing_slots", "landing slots")
        self.requests_limit = gauge("requests_limit", "decodes that may be under way")
        self.slots_in_use = gauge("landing_slots_in_use", "landing slots with content")
        self.in_flight = gauge("requests_in_flight", "decodes under way")
        self.read_seconds = Histogram(
            "auricle_pd_worker_read_seconds",
            "NIXL reads, verification included",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
            registry=registry,
        )

    def decoded(self, reply: DecodeReply, drafted: int, accepted: int) -> None:
        """One decode was answered; of `drafted` tokens verified `accepted` were right."""
        self._decodes.inc()
        self._prompt.inc(reply.prompt_tokens)
        self._cached.inc(reply.cached_tokens)
        self._prefilled.inc(reply.prompt_tokens - reply.cached_tokens)
        self._output.inc(len(reply.tokens))
        self._steps.inc(reply.steps)
        self._drafted.inc(drafted)
        self._accepted.inc(accepted)
        self._bytes.labels("nixl").inc(reply.embedding_bytes_read)
