"""The align worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from prometheus_client import CollectorRegistry

from auricle.process.metrics import ComponentMetrics


class AlignWorkerMetrics:
    """Counts segments, words and embedding bytes, and shows requests and landing slots."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "align_worker")
        self._segments = new.counter("segments", "segments aligned")
        self._words = new.counter("words", "words aligned")
        self._falls = new.counter(
            "times_fallen", "times that lay before the one before them, and were repaired"
        )
        self._bytes = new.counter(
            "received_bytes", "embeddings read, slot headers included, by transport", "transport"
        )
        self.batch_segments = new.histogram(
            "batch_segments", "segments per batch", (1, 2, 4, 8, 16, 32, 64)
        )
        self.slots = new.gauge("landing_slots", "landing slots")
        self.slots_in_use = new.gauge("landing_slots_in_use", "landing slots with content")
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests under way")
        self.read_seconds = new.histogram(
            "read_seconds",
            "duration of a NIXL read, verification included",
            (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
        )

    def aligned(self, words: int, *, raw: Sequence[int], bytes_read: int) -> None:
        """Count one segment; `raw` are the times as the model gave them."""
        self._segments.inc()
        self._words.inc(words)
        self._falls.inc(sum(after < before for before, after in pairwise(raw)))
        self._bytes.labels("nixl").inc(bytes_read)
