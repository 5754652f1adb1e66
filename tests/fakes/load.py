"""Load of workers."""

from __future__ import annotations

from auricle.load.reports import WorkerLoad


def worker(instance: int, **values: object) -> WorkerLoad:
    plain = {
        "kind": "pd_worker",
        "instance": instance,
        "seconds": 2.0,
        "work": {"decodes": 20.0, "steps": 100.0},
        "busy": 0.5,
        "requests_per_second": 20.0,
        "refused_per_second": 0.0,
        "response_seconds": 0.1,
        "queue_wait_seconds": 0.01,
        "slots_used": 4.0,
        "slots_total": 16,
    }
    return WorkerLoad(**(plain | values))  # type: ignore[arg-type]
