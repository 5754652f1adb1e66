"""The translate worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.messages import TranslateReply
from auricle.process.metrics import ComponentMetrics


class TranslateWorkerMetrics:
    """Counts translations and tokens, and shows requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "translate_worker")
        self._translations = new.counter("translations", "translate requests answered")
        self._prompt = new.counter("prompt_tokens", "prompt tokens of all translations")
        self._cached = new.counter("cached_tokens", "prompt tokens found in the KV cache")
        self._output = new.counter("output_tokens", "tokens generated")
        self._steps = new.counter(
            "decode_steps", "decode steps, counted once for each request in a step"
        )
        self._drafted = new.counter(
            "draft_tokens", "draft tokens (of the previous hypothesis) verified"
        )
        self._accepted = new.counter("accepted_tokens", "draft tokens accepted")
        self._seconds = new.histogram(
            "translation_seconds",
            "time from a request's arrival to its reply",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests under way")

    def translated(self, reply: TranslateReply, tokens: int, steps: int) -> None:
        """Count one answered request, of which the engine generated `tokens` in `steps`."""
        self._translations.inc()
        self._prompt.inc(reply.prompt_tokens)
        self._cached.inc(reply.cached_tokens)
        self._output.inc(tokens)
        self._steps.inc(steps)
        self._drafted.inc(reply.draft_tokens)
        self._accepted.inc(reply.accepted_tokens)
        self._seconds.observe(reply.seconds)
