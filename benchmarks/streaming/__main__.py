"""All figures of streaming recognition into one file.

    make bench-env
    python -m benchmarks.checkpoints 60m --output build/checkpoints/60m
    python -m models.training.corpus build/demo-corpus
    python -m benchmarks.streaming --out build/streaming.json [--quick] [--only GROUP]

Writes `{"figures": {name: number}, "environment": {…}, "cost": {…}}` and, beside the
file, plots of the cost per chunk. `--quick` takes under 15 minutes on two cores and leaves
out `files`; all of it takes about an hour. With `--only`, figures of other groups already
in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.streaming import cost, endpoints, files, quality
from benchmarks.streaming.environment import environment
from benchmarks.streaming.plots import draw

_MODEL_60M = Path("build/checkpoints/60m")
Result = dict[str, Any]


def _cost(quick: bool, out: Path) -> Result:
    measured = cost.measure(_MODEL_60M, out.parent, quick)
    draw(measured, out.parent)
    return {"figures": cost.figures(measured), "cost": measured.plain()}


def _quality(quick: bool, out: Path) -> Result:
    return {"figures": quality.figures(quick, out.parent)}


def _endpoints(quick: bool, out: Path) -> Result:
    return {"figures": endpoints.figures(quick)}


def _files(quick: bool, out: Path) -> Result:
    return {"figures": files.figures(quick, out.parent)}


_GROUPS: dict[str, Callable[[bool, Path], Result]] = {
    "endpoints": _endpoints,
    "files": _files,
    "quality": _quality,
    "cost": _cost,
}
_NOT_QUICK = frozenset({"files"})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=_GROUPS)
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    # One thread each, as the server's processes have; two would fight over two cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    result: Result = {"figures": {}, "environment": environment()}
    if arguments.only and out.exists():
        result = json.loads(out.read_text()) | {"environment": environment()}
    skipped = _NOT_QUICK if arguments.quick else frozenset()
    for name, group in _GROUPS.items():
        asked = name == arguments.only if arguments.only else name not in skipped
        if asked:
            began = time.monotonic()
            found = group(arguments.quick, out)
            result["figures"] |= found.pop("figures") | {
                f"seconds_{name}": time.monotonic() - began
            }
            result |= found
            out.write_text(json.dumps(result, indent=1) + "\n")
    for figure, value in sorted(result["figures"].items()):
        print(f"{figure:44} {value:.6g}")


if __name__ == "__main__":
    main()
