"""The encode worker's own metrics; load/reporter.py has those of its load."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from auricle.encode_worker.store import EmbeddingStore
from auricle.messages.encoding import WindowFeatures
from auricle.process.metrics import ComponentMetrics


class EncodeWorkerMetrics:
    """Counts windows encoded and found, and shows batch sizes, slots and leases."""

    def __init__(self, registry: CollectorRegistry, store: EmbeddingStore) -> None:
        new = ComponentMetrics(registry, "encode_worker")
        self._encoded = new.counter(
            "windows_encoded", "windows encoded, by state (whole or partial)", "state"
        )
        self.found = new.counter("windows_found", "windows found in the slab")
        self._convolved = new.counter(
            "blocks_convolved", "one-second blocks that went through the conv stack"
        )
        self._flops = new.counter(
            "flops", "floating-point operations of the encoder's matrix products"
        )
        self._batch_windows = new.histogram(
            "batch_windows", "windows per forward pass", (1, 2, 4, 8, 16, 32, 64)
        )
        self.batch_limit = new.gauge(
            "batch_limit", "windows per forward pass at most; halved once they did not fit"
        )
        self._received = new.counter(
            "received_bytes", "mel features received, by transport", "transport"
        )
        new.gauge("slots_in_use", "slab slots with content").set_function(store.slots_in_use)
        new.gauge("slots", "slab slots").set_function(store.slots)
        spoiled = new.counter("slots_spoiled", "slots evicted because their content was wrong")
        store.on_spoiled = spoiled.inc
        self.queued = new.gauge("queued_windows", "windows waiting to be encoded")
        new.gauge("open_leases", "leases neither released nor expired").set_function(
            store.open_leases
        )

    def received(self, windows: Sequence[WindowFeatures]) -> None:
        """Count the bytes of features that came with a request."""
        blocks = (block for window in windows for block in window.blocks)
        size = sum(len(block.log_mel) for block in blocks if block.log_mel is not None)
        self._received.labels("request_plane").inc(size)

    def batch(self, windows: Sequence[WindowFeatures], *, convolved: int, flops: int) -> None:
        """Count one forward pass: its windows, the blocks convolved for it, and its FLOPs."""
        self._batch_windows.observe(len(windows))
        self._convolved.inc(convolved)
        self._flops.inc(flops)
        for window in windows:
            self._encoded.labels("partial" if window.partial else "whole").inc()
