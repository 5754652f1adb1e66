"""What the encode worker counts."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from auricle.encode_worker.store import EmbeddingStore
from auricle.messages import WindowFeatures


class EncodeWorkerMetrics:
    """Windows encoded and found, batch sizes, slots and leases."""

    def __init__(self, registry: CollectorRegistry, store: EmbeddingStore) -> None:
        self._encoded = Counter(
            "auricle_encode_worker_windows_encoded",
            "windows encoded, by whether they were whole",
            ["state"],
            registry=registry,
        )
        self.found = Counter(
            "auricle_encode_worker_windows_found", "windows found in the slab", registry=registry
        )
        self._convolved = Counter(
            "auricle_encode_worker_blocks_convolved",
            "one-second blocks that went through the conv stack",
            registry=registry,
        )
        self._flops = Counter(
            "auricle_encode_worker_flops",
            "floating point operations of the encoder's matrix products",
            registry=registry,
        )
        self._batch_windows = Histogram(
            "auricle_encode_worker_batch_windows",
            "windows per forward pass",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self._received = Counter(
            "auricle_encode_worker_received_bytes",
            "features received, by transport",
            ["transport"],
            registry=registry,
        )
        slots = Gauge(
            "auricle_encode_worker_slots_in_use", "slab slots with content", registry=registry
        )
        slots.set_function(store.slots_in_use)
        total = Gauge("auricle_encode_worker_slots", "slab slots", registry=registry)
        total.set_function(store.slots)
        self.queued = Gauge(
            "auricle_encode_worker_queued_windows", "windows waiting", registry=registry
        )
        leases = Gauge("auricle_encode_worker_open_leases", "leases", registry=registry)
        leases.set_function(store.open_leases)

    def received(self, windows: Sequence[WindowFeatures]) -> None:
        """Features came with a request."""
        blocks = (block for window in windows for block in window.blocks)
        size = sum(len(block.log_mel) for block in blocks if block.log_mel is not None)
        self._received.labels("request_plane").inc(size)

    def batch(self, windows: Sequence[WindowFeatures], *, convolved: int, flops: int) -> None:
        """One forward pass."""
        self._batch_windows.observe(len(windows))
        self._convolved.inc(convolved)
        self._flops.inc(flops)
        for window in windows:
            self._encoded.labels("partial" if window.partial else "whole").inc()
