"""The align worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from prometheus_client import CollectorRegistry

from auricle.landing.metrics import LandingMetrics
from auricle.load.segment_worker import SegmentMetrics
from auricle.process.metrics import ComponentMetrics


class AlignWorkerMetrics(SegmentMetrics):
    """Counts segments and words too; `landing` is of the embeddings."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "align_worker")
        super().__init__(new)
        self._segments = new.counter("segments", "segments aligned")
        self._words = new.counter("words", "words aligned")
        self._falls = new.counter(
            "times_fallen", "times that lay before the one before them, and were repaired"
        )
        self.landing = LandingMetrics(new)

    def aligned(self, words: int, *, raw: Sequence[int], bytes_read: int) -> None:
        """Count one segment; `raw` are the times as the model gave them."""
        self._segments.inc()
        self._words.inc(words)
        self._falls.inc(sum(after < before for before, after in pairwise(raw)))
        self.landing.received(bytes_read)
