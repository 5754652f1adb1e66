"""Metrics of a worker that reads embeddings, prefixed with the name of its component."""

from __future__ import annotations

from auricle.embeddings.slots import SlotTable
from auricle.process.metrics import ComponentMetrics


class LandingMetrics:
    def __init__(self, new: ComponentMetrics) -> None:
        self._bytes = new.counter(
            "received_bytes", "embeddings read, slot headers included, by transport", "transport"
        )
        self._slots = new.gauge("landing_slots", "landing slots")
        self._in_use = new.gauge("landing_slots_in_use", "landing slots with content")
        self._rate = new.gauge(
            "timed_read_bytes_per_second",
            "rate of reads from the encode worker met last, by the memory that they read",
            "memory",
        )
        self.read_seconds = new.histogram(
            "read_seconds",
            "duration of a NIXL read, verification included",
            (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
        )

    def show(self, table: SlotTable) -> None:
        self._slots.set(table.count)
        self._in_use.set_function(lambda: table.in_use)

    def received(self, size: int) -> None:
        self._bytes.labels("nixl").inc(size)

    def timed(self, memory: str, bytes_per_second: float) -> None:
        self._rate.labels(memory).set(bytes_per_second)
