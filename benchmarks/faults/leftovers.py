"""Leaks of a graph: leases and sessions while it runs, files and memory afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from auricle_testing.replicas import replicas
from auricle_testing.scraping import scraped, values
from benchmarks.faults.graph import Graph

# The default of a lease is 30 s; nothing else is held for longer without sessions.
_SETTLE_SECONDS = 45.0
_HELD = {
    "EncodeWorker": ("auricle_encode_worker_open_leases", "auricle_encode_worker_queued_windows"),
    "PdWorker": ("auricle_pd_worker_requests_in_flight",),
    "Processor": ("auricle_processor_sessions",),
}
_SHARED_MEMORY = Path("/dev/shm")


def held(graph: Graph) -> list[str]:
    """Return the leases and sessions that replicas still hold 45 s after the last session; returns
    early if there are none."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (found := _held_now(graph)) and time.monotonic() < deadline:
        time.sleep(1.0)
    return found


def _held_now(graph: Graph) -> list[str]:
    found = []
    for component, names in _HELD.items():
        for port in replicas(graph.server, component):
            try:
                samples = scraped(f"http://127.0.0.1:{port}", seconds=10.0)
            except httpx.HTTPError as error:
                found.append(f"{component} at {port} does not answer: {type(error).__name__}")
                continue
            for name in names:
                if (amount := sum(values(samples, name))) > 0:
                    found.append(f"{component}: {name} {amount:g}")
    return found


def files(folder: Path) -> list[str]:
    """Return the files below a graph's temporary folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


def shared_memory() -> set[str]:
    """Return the names of all shared memory on this machine."""
    if not _SHARED_MEMORY.is_dir():
        return set()
    # Semaphores of Python's pools in other programs come and go.
    return {p.name for p in _SHARED_MEMORY.iterdir() if not p.name.startswith("sem.mp-")}
