"""More clients than the machine carries, against a running graph.

    python -m benchmarks.overload --out FILE [--quick | --smoke] [--only PART …]

Searches how many sessions are carried, then offers 2, 3 and 10 times as many, changes the
machine's speed under load, and lets one tenant flood the server beside others. Figures go to FILE
as they are known; with `--only` those of other parts are kept. METRICS.md defines them.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.overload.graph import running
from benchmarks.overload.parts import FULL, PARTS, QUICK, SMOKE, Results, capacity
from benchmarks.streaming.environment import environment


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about 25 minutes instead of 75")
    size.add_argument("--smoke", action="store_true", help="only whether everything runs")
    parser.add_argument("--only", metavar="PART", nargs="+", choices=["capacity", *PARTS])
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out: Path = arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = {"figures": {}, "details": {}, "invalid": {}}
    if arguments.only and out.exists():
        known |= json.loads(out.read_text())
    known["environment"] = environment()
    scale = QUICK if arguments.quick else SMOKE if arguments.smoke else FULL
    results = Results(
        scale, out.parent, _told, known["figures"], known["details"], known["invalid"]
    )
    names = arguments.only or ["capacity", *PARTS]

    def save() -> None:
        out.write_text(json.dumps(known, indent=1) + "\n")

    if "capacity" in names:
        capacity(results)
        save()
    for name in names:
        if name in PARTS:
            with running() as graph:
                PARTS[name](results, graph)
            save()
    for name, value in results.figures.items():
        print(f"{name:28} {value:.6g}")
    for name, why in results.invalid.items():
        print(f"{name:28} invalid: {why}")


def _told(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
