"""The counters of an engine's tokens, which workers of every kind have."""

from __future__ import annotations

from auricle.pd_worker.engine import Decoded
from auricle.process.metrics import ComponentMetrics


class TokenCounters:
    """Counts the tokens of answered requests."""

    def __init__(self, new: ComponentMetrics, requests: str) -> None:
        """`requests` is the word for them, such as decodes."""
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
