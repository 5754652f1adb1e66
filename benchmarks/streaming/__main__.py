"""All figures of streaming recognition into one file.

    make bench-env
    python -m benchmarks.streaming --out build/streaming.json [--quick | --smoke] [--only GROUP]

Writes `{"figures": {name: number}, "environment": {…}, "cost": {…}}` and, beside the
file, plots of the cost per chunk. `--quick` takes under 15 minutes on two cores and leaves
out `files`; all of it takes about an hour. `--smoke` runs everything in a few minutes
on so little audio that its figures say nothing. With `--only`, figures of other groups
already in the file are kept. Speech and the `60m` checkpoint are made if they are missing.
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
from benchmarks.streaming.scale import FULL, QUICK, SMOKE, Scale

Result = dict[str, Any]


def _cost(scale: Scale, out: Path) -> Result:
    measured = cost.measure(out.parent, scale)
    draw(measured, out.parent)
    return {"figures": cost.figures(measured, scale), "cost": measured.plain()}


def _quality(scale: Scale, out: Path) -> Result:
    return {"figures": quality.figures(scale, out.parent)}


def _endpoints(scale: Scale, out: Path) -> Result:
    return {"figures": endpoints.figures(scale)}


def _files(scale: Scale, out: Path) -> Result:
    return {"figures": files.figures(scale, out.parent)}


GROUPS: dict[str, Callable[[Scale, Path], Result]] = {
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
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick", dest="scale", action="store_const", const=QUICK, help="under 15 minutes"
    )
    scale.add_argument(
        "--smoke", dest="scale", action="store_const", const=SMOKE, help="only whether it runs"
    )
    parser.set_defaults(scale=FULL)
    parser.add_argument("--only", choices=GROUPS)
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    # One thread each, as the server's processes have; two would fight over two cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    result: Result = {"figures": {}, "environment": environment()}
    if arguments.only and out.exists():
        result = json.loads(out.read_text()) | {"environment": environment()}
    skipped = _NOT_QUICK if arguments.scale is QUICK else frozenset()
    for name, group in GROUPS.items():
        asked = name == arguments.only if arguments.only else name not in skipped
        if asked:
            began = time.monotonic()
            found = group(arguments.scale, out)
            result["figures"] |= found.pop("figures") | {
                f"seconds_{name}": time.monotonic() - began
            }
            result |= found
            out.write_text(json.dumps(result, indent=1) + "\n")
    for figure, value in sorted(result["figures"].items()):
        print(f"{figure:44} {value:.6g}")
    if arguments.scale is SMOKE:
        print("smoke: everything ran; the figures say nothing")


if __name__ == "__main__":
    main()
