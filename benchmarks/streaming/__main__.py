"""All figures of streaming recognition.

    make bench-env
    python -m benchmarks.streaming --out build/streaming.json [--quick | --smoke] [--only GROUP]

Also draws plots of the cost per chunk next to the file. `--quick` takes under 15 minutes on two
cores and leaves out `files`; all of it takes about an hour. Speech and the `60m` checkpoint are
made if they are missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness import Benchmark, Run, main
from benchmarks.streaming import cost, endpoints, files, quality
from benchmarks.streaming.plots import draw
from benchmarks.streaming.scale import SCALES


def _cost(run: Run) -> dict[str, float]:
    scale = SCALES[run.size]
    measured = cost.measure(run.folder, scale)
    draw(measured, run.folder)
    run.extra["cost"] = measured.plain()
    return cost.figures(measured, scale)


@contextmanager
def _one_thread(_run: Run) -> Iterator[None]:
    # As in the server's processes; two threads would compete for two cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    yield


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "endpoints": lambda run: endpoints.figures(SCALES[run.size]),
        "files": lambda run: files.figures(SCALES[run.size], run.folder),
        "quality": lambda run: quality.figures(SCALES[run.size], run.folder),
        "cost": _cost,
    },
    around=_one_thread,
    full_only=frozenset({"files"}),
)

if __name__ == "__main__":
    main(BENCHMARK)
