"""The PD worker's own metrics; load/reporter.py has its load metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.embeddings.metrics import LandingMetrics
from auricle.process.metrics import ComponentMetrics
from auricle.protocol.recognition import DecodeReply
from auricle.workers.pd.engine import Decoded


class TokenCounters:
    def __init__(self, new: ComponentMetrics, requests: str) -> None:
        """`requests` is their name in the description, such as decodes."""
        self._prompt = new.counter("prompt_tokens", f"prompt tokens of all {requests}")
        self._cached = new.counter("cached_tokens", "prompt tokens found in the KV cache")
        self._output = new.counter("output_tokens", "tokens generated")
        self._steps = new.counter(
            "decode_steps", "decode steps, counted once for each request in a step"
        )
        self._drafted = new.counter(
            "draft_tokens", "draft tokens (of the previous hypothesis) verified"
        )
        self._accepted = new.counter("accepted_tokens", "draft tokens accepted")

    def answered(self, decoded: Decoded, output: int) -> None:
        """Count one answered request; `output` of its tokens count as generated."""
        self._prompt.inc(decoded.prompt_tokens)
        self._cached.inc(decoded.cached_tokens)
        self._output.inc(output)
        self._steps.inc(decoded.steps)
        self._drafted.inc(decoded.draft_tokens)
        self._accepted.inc(decoded.accepted_tokens)


class PdWorkerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "pd_worker")
        self._decodes = new.counter("decodes", "decode requests answered")
        self._tokens = TokenCounters(new, "decodes")
        self._prefilled = new.counter("prefilled_tokens", "prompt tokens prefilled")
        self.landing = LandingMetrics(new)
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent decodes")
        self.in_flight = new.gauge("requests_in_flight", "decodes in progress")

    def decoded(self, reply: DecodeReply, decoded: Decoded) -> None:
        self._decodes.inc()
        self._tokens.answered(decoded, len(reply.tokens))
        self._prefilled.inc(reply.prompt_tokens - reply.cached_tokens)
        self.landing.received(reply.embedding_bytes_read)
