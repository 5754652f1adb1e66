"""How many live sessions a machine carries if all of them ask for words, and if none does."""

from __future__ import annotations

import sys
from dataclasses import replace

import psutil

from benchmarks.annotations.graph import Asked
from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.subjects import Running, Subject

_CHUNK_MS, _FIRST = 640, 8
_SUBJECT = Subject("ours", "demo")


def capacity(asked: Asked) -> dict[str, float]:
    """Search both on one graph, whose align pool is idle in one of them."""
    condition = Condition(_CHUNK_MS, (5.0, 15.0), asked.of(60, 30, 12), worst_wer=0.25)
    most = asked.of(64, 64, 2)
    found: dict[str, float] = {}
    with asked.serving("--Processor.admission=fixed") as server:
        plain = Running(server.url, "demo", psutil.Process(server.process.pid))
        for name, running in (("without_words", plain), ("with_words", replace(plain, words=True))):
            search = CapacitySearch(
                _SUBJECT, running, condition, repeats=asked.of(3, 1), told=_told
            )
            carried = search.run(min(_FIRST, most), most=most).capacity
            found[f"capacity_{name}"] = float(carried)
    without = found["capacity_without_words"]
    ratio = found["capacity_with_words"] / without if without else float("nan")
    return found | {"capacity_words_ratio": ratio}


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
