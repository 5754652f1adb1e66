"""The diarize worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auricle.process.metrics import ComponentMetrics


class DiarizeWorkerMetrics:
    """Counts segments, speech and turns, and shows requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "diarize_worker")
        self._segments = new.counter("segments", "segments diarized")
        self._audio = new.counter("audio_seconds", "audio of the segments diarized")
        self._turns = new.counter("turns", "turns of speakers found")
        self.batch_segments = new.histogram(
            "batch_segments", "segments per batch", (1, 2, 4, 8, 16, 32)
        )
        self.pass_seconds = new.histogram(
            "pass_seconds",
            "duration of a batch",
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        )
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests under way")

    def diarized(self, seconds: float, turns: int) -> None:
        """Count one segment."""
        self._segments.inc()
        self._audio.inc(seconds)
        self._turns.inc(turns)
