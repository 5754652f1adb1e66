"""How many live sessions a machine carries if all ask for words and speakers, and if none does."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import psutil

from auricle_testing.server import Server
from benchmarks.annotations.graph import BOTH_POOLS, Asked
from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.subjects import Running, Subject
from benchmarks.parts import Sized

_CHUNK_MS, _FIRST = 640, 16
_SUBJECT = Subject("ours", "demo")


def capacity(asked: Asked) -> dict[str, float]:
    """Search both on one graph, whose pools beside the path are idle in one of them."""
    with asked.serving("--Processor.admission=fixed", graph=BOTH_POOLS) as server:
        return with_and_without(asked, server, "words_and_speakers", words=True, diarize=True)


def with_and_without(asked: Sized, server: Server, name: str, **wanted: Any) -> dict[str, float]:
    """Search the capacity for sessions that ask for nothing, and for what is `wanted`."""
    condition = Condition(_CHUNK_MS, (5.0, 15.0), asked.of(60, 30, 12), worst_wer=0.25)
    most = asked.of(64, 64, 2)
    first = min(_FIRST, most)
    plain = Running(server.url, "demo", psutil.Process(server.process.pid))
    found: dict[str, float] = {}
    for place, running in (
        (f"capacity_without_{name}", plain),
        (f"capacity_with_{name}", replace(plain, **wanted)),
    ):
        search = CapacitySearch(_SUBJECT, running, condition, repeats=asked.of(3, 1), told=_told)
        capacity = search.run(first, most=most).capacity
        found[place], first = float(capacity), max(1, capacity)  # the next is near it
    without, beside = found.values()
    return found | {f"capacity_{name}_ratio": beside / without if without else math.nan}


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
