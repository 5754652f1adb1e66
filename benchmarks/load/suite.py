"""Writes all figures of the load suite to one file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.progress import Progress, TextColumn, TimeElapsedColumn

from benchmarks.load.groups import GROUPS, NOT_QUICK, Suite
from benchmarks.load.plots import draw
from benchmarks.load.scale import FULL, QUICK, SMOKE
from benchmarks.streaming.environment import environment

# Minutes of each group on two cores: for the estimate of when it ends, and nothing else.
_MINUTES = {
    "control": 4.5,
    "demo": 11,
    "half": 2.3,
    "time": 1.5,
    "profiles": 1.5,
    "heavier": 11,
    "time-10x": 2,
    "recorded": 3,
    "recorded-10x": 5,
    "soak": 31,
}


# How many times as long it takes.
_FACTORS = {"full": 4.0, "quick": 1.0, "smoke": 0.4}
_SCALES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def run_suite(out: Path, *, scale: str, only: str | None) -> None:
    """`scale` is `full`, `quick` or `smoke`, which shows only that everything runs.

    Figures of other groups already in the file are kept where `only` is given.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"figures": {}, "details": {}, "invalid": {}}
    if only and out.exists():
        result |= json.loads(out.read_text())
    result["environment"] = environment()
    names = [n for n in GROUPS if (n == only if only else scale != "quick" or n not in NOT_QUICK)]
    if not names:
        raise SystemExit(f"unknown group {only!r}; known: {', '.join(GROUPS)}")
    left = sum(_MINUTES[name] * _FACTORS[scale] for name in names)
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*Progress.get_default_columns()[1:2], *columns) as progress:
        bar = progress.add_task("", total=left)
        for name in names:
            progress.update(bar, description=f"{name}, about {left:.0f} minutes left")

            def save() -> None:
                out.write_text(json.dumps(result, indent=1) + "\n")

            suite = Suite(
                _SCALES[scale], out.parent, progress.console.print, save,
                result["figures"], result["details"], result["invalid"],
            )  # fmt: skip
            began = time.monotonic()
            GROUPS[name](suite)
            result["figures"][f"seconds_{name}"] = time.monotonic() - began
            save()
            step = _MINUTES[name] * _FACTORS[scale]
            left -= step
            progress.advance(bar, step)
    draw(result["details"], out.parent)
    for figure, value in sorted(result["figures"].items()):
        print(f"{figure:36} {value:.6g}")
    for figure, why in sorted(result["invalid"].items()):
        print(f"{figure:36} invalid: {why}")
    if scale == "smoke":
        print("smoke: everything ran; the figures say nothing")
