"""The diarize worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.load.segment_worker import SegmentMetrics
from auricle.process.metrics import ComponentMetrics


class DiarizeWorkerMetrics(SegmentMetrics):
    """Counts segments, speech and turns too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "diarize_worker")
        super().__init__(new)
        self._segments = new.counter("segments", "segments diarized")
        self._audio = new.counter("audio_seconds", "audio of the segments diarized")
        self._turns = new.counter("turns", "turns of speakers found")
        self.pass_seconds = new.histogram(
            "pass_seconds",
            "duration of a batch",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )

    def diarized(self, seconds: float, turns: int) -> None:
        """Count one segment."""
        self._segments.inc()
        self._audio.inc(seconds)
        self._turns.inc(turns)
