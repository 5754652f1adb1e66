"""The number of live sessions that a machine carries with annotations and without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import psutil

from auricle_testing.server import Server
from benchmarks.annotations.graph import BOTH_POOLS, annotating
from benchmarks.harness import Run, note
from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.subjects import Running, Subject

_CHUNK_MS, _FIRST = 640, 16
_SUBJECT = Subject("ours", "demo")


def capacity(run: Run) -> dict[str, float]:
    """Search both on one graph, whose annotation pools are idle in one of the searches."""
    with annotating(run, "--Processor.admission=fixed", graph=BOTH_POOLS) as server:
        return with_and_without(run, server, "words_and_speakers", words=True, diarize=True)


def with_and_without(run: Run, server: Server, name: str, **wanted: Any) -> dict[str, float]:
    """Search the capacity for sessions without annotations, and for sessions with `wanted`."""
    condition = Condition(_CHUNK_MS, (5.0, 15.0), run.of(60, 30, 12), worst_wer=0.25)
    most = run.of(64, 64, 2)
    first = min(_FIRST, most)
    plain = Running(server.url, "demo", psutil.Process(server.process.pid))
    found: dict[str, float] = {}
    for place, running in (
        (f"capacity_without_{name}", plain),
        (f"capacity_with_{name}", replace(plain, **wanted)),
    ):
        search = CapacitySearch(_SUBJECT, running, condition, repeats=run.of(3, 1), log=note)
        capacity = search.run(first, most=most).capacity
        found[place], first = float(capacity), max(1, capacity)  # the next one is close to it
    without, with_them = found.values()
    return found | {f"capacity_{name}_ratio": with_them / without if without else math.nan}
