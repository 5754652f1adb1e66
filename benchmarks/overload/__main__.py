"""More clients than the machine carries, against a running graph.

    python -m benchmarks.overload --out FILE [--quick | --smoke] [--only PART …]

Searches the capacity, then offers 2, 3 and 10 times as many sessions, changes the machine's speed
under load, and lets one tenant flood the server that others use. METRICS.md defines the figures.
Takes 75 minutes, `--quick` 25.
"""

from __future__ import annotations

from benchmarks.harness import Benchmark, main
from benchmarks.overload.parts import PARTS

BENCHMARK = Benchmark(description=__doc__, parts=PARTS)

if __name__ == "__main__":
    main(BENCHMARK)
