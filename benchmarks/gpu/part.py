"""Runs a part in a process of its own, which takes its GPU memory and any fault with it."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path

from benchmarks.baselines.client import end
from benchmarks.gpu.found import Found, Task
from benchmarks.gpu.parts import PARTS
from benchmarks.prepared import ROOT


class PartFailed(Exception):
    """A part has no figures; the text is the reason."""


def run(task: Task, seconds: float) -> Found:
    """Run a part; its process and all below it have ended when this returns.

    Raises PartFailed if it fails, or is not done after `seconds`.
    """
    with tempfile.TemporaryDirectory() as directory:
        answer = Path(directory) / "found.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.part", str(answer)],
            cwd=ROOT, stdin=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            process.communicate(json.dumps(asdict(task)), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise PartFailed(f"not done after {seconds:g} s") from None
        finally:
            end(process)
        if not answer.exists():
            raise PartFailed(f"its process ended with {process.returncode}")
        told = json.loads(answer.read_text())
    if "failed" in told:
        raise PartFailed(told["failed"])
    return Found(**told)


def main() -> None:
    """Measure the part of the task on standard input; write its results, or why it has none."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    task, answer = Task(**json.load(sys.stdin)), Path(sys.argv[1])
    part = PARTS[task.part]
    try:
        found = importlib.import_module(f"benchmarks.gpu.{part.module}").measure(task)
        if found.names != set(part.figures):
            raise AssertionError(f"{sorted(found.names ^ set(part.figures))} are not as declared")
        told = asdict(found)
    except Exception as error:  # whatever it is, the next part may still have figures
        traceback.print_exc()
        told = {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    answer.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
