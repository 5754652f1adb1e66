"""The PD engine of an earlier commit and of this tree, measured in turns in one run."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.before.trees import NoSuchCommit, work_tree
from benchmarks.prepared import ROOT
from benchmarks.statistics import Ratio, in_turns, ratios

_FIGURES = {
    "pd_requests_ratio_before": "per_core_second",
    "pd_requests_api_cpu_ratio_before": "api_cpu_ms",
    "pd_requests_core_cpu_ratio_before": "core_cpu_ms",
}
_STOP_SECONDS = 60.0


class _Asked:
    """The benchmark as a process of its own, which measures on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """Return the next line that it prints; raises RuntimeError if it has ended."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        raise RuntimeError(f"the engine's process ended with {self._process.wait()}")

    def measure(self, seconds: float) -> dict[str, float]:
        """Measure for `seconds`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self.line())
        return found


def compared(commit: str, pairs: int, seconds: float) -> dict[str, float]:
    """Return the figures of both trees, and this tree's ÷ the commit's."""
    rows: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    with work_tree(commit) as tree, _asked(tree.path) as before, _asked(ROOT) as now:
        engines = {"before": before, "now": now}
        for number in range(pairs):
            for name in in_turns(("before", "now"), number):
                row = engines[name].measure(seconds)
                rows[name].append(row)
                shown = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
                print(f"{number} {name:6}  {shown}", file=sys.stderr, flush=True)
    return figures(ratios(rows["before"], rows["now"]))


def since(commit: str, pairs: int, seconds: float) -> tuple[str, dict[str, float]]:
    """Return the figures as `compared`, or why there are none and NaN for the first of them."""
    try:
        return "", compared(commit, pairs, seconds)
    except NoSuchCommit as error:
        return str(error), {next(iter(_FIGURES)): math.nan}


def figures(found: dict[str, Ratio]) -> dict[str, float]:
    """Return the published figures: ratios with their intervals, and both sides of the first."""
    published: dict[str, float] = {}
    for name, source in _FIGURES.items():
        published |= found[source].named(name)
    one = found["per_core_second"]
    return published | {
        "pd_engine_requests_per_core_s_before": one.before,
        "pd_engine_requests_per_core_s": one.now,
    }


@contextmanager
def _asked(tree: Path) -> Iterator[_Asked]:
    """Start this tree's benchmark with the package `auricle` of `tree`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.control.engine", "--when-asked"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{tree / 'components'}:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        engine = _Asked(process)
        while engine.line() != "ready\n":
            pass  # output of vLLM
        yield engine
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the process stops its engine at the end of its input
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
