"""Live translation on the real graph with a translate pool.

    python -m benchmarks.translation --out FILE [--quick | --smoke] [--only PART] [--translator DIR]

Figures in FILE of other parts are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.annotations.capacity import with_and_without
from benchmarks.annotations.delays import alternating, final_delays, last_final
from benchmarks.harness import Benchmark, Run, UsageError, main
from benchmarks.prepared import ROOT
from benchmarks.translation.faults import faults
from benchmarks.translation.graph import TARGET, TRANSLATED, translating
from benchmarks.translation.streaming import masks, streaming


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--translator", type=Path, default=ROOT / "models/demo-translate")


@contextmanager
def _with_translator(run: Run) -> Iterator[None]:
    translator: Path = run.arguments.translator
    if not (translator / "config.json").exists():
        raise UsageError(f"{translator} has no checkpoint: name one, or run make train-translate")
    run.extra["translator"] = translator.name
    yield


def capacity(run: Run) -> dict[str, float]:
    """Search the capacity twice on one graph, whose translate pool is idle in one search."""
    with translating(run, "--Processor.admission=fixed") as server:
        return with_and_without(run, server, "translation", translate=(TARGET,))


def delays(run: Run) -> dict[str, float]:
    """Run sessions in real time with and without a target language, in turns on one graph."""
    stops: dict[bool, list[float]] = {True: [], False: []}
    with translating(run) as server:
        for wanted, session in alternating(run, server.url, TRANSLATED):
            stops[wanted].append(last_final(session) - session.stopped)
    return final_delays(stops, "translation")


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "streaming": streaming,
        "masks": masks,
        "delays": delays,
        "faults": faults,
        "capacity": capacity,
    },
    arguments=_arguments,
    around=_with_translator,
    keeps=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
