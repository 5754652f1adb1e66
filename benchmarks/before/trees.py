"""Servers of other commits: a work tree of a commit, and the graph started from its files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from benchmarks.baselines.protocol import cpu_seconds
from benchmarks.prepared import ROOT

_TREES = ROOT / "build/before"
# Runs inside the tree, so that the options are those that its own benchmarks start servers with,
# and none that it does not have. A server that skips grid points, or lengthens the cadence,
# because this machine is slow would do other work than the one beside it.
_START = """
import pathlib, sys
from auricle.settings import ProcessorSettings
from benchmarks.streaming.cost import server_options
from tests.server import serving
model = sys.argv[1]
options = server_options(pathlib.Path(model), 30.0) if model else []
unhurried = {"target_chunk_ms": 10**9, "assured_sessions": 64, "admission": "fixed"}
has = ProcessorSettings.model_fields
options += [f"--Processor.{key}={value}" for key, value in unhurried.items() if key in has]
with serving(*options) as server:
    print(f"AURICLE_BEFORE {server.process.pid} {server.url}", flush=True)
    sys.stdin.read()
"""
_STOP_SECONDS = 90.0


@dataclass(frozen=True)
class Running:
    """A graph at `url`, of the launcher `pid`."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that all its processes have used."""
        return cpu_seconds(psutil.Process(self.pid))


@contextlib.contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """Check a commit out under build/ until the block ends.

    Raises subprocess.CalledProcessError if there is no such commit.
    """
    name = _git("rev-parse", "--short=12", "--verify", f"{commit}^{{commit}}")
    path = _TREES / f"{name}-{os.getpid()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    _git("worktree", "add", "--force", "--detach", str(path), name)
    try:
        yield path
    finally:
        _git("worktree", "remove", "--force", str(path))


@contextlib.contextmanager
def serving_tree(tree: Path, model: Path | None = None) -> Iterator[Running]:
    """Start the graph from the files of `tree`, with this environment's packages.

    It serves models/demo, or `model` set up as for the cost of streaming. Raises RuntimeError
    with the end of its output if it does not start, or does not end cleanly.
    """
    paths = {"PYTHONPATH": f"{tree / 'components'}:{tree}"}
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(model.resolve()) if model else ""],
        cwd=tree,
        env=os.environ | paths,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        said: list[str] = []
        running = _announced(process.stdout, said)
        if running is None:
            raise RuntimeError(f"the server of {tree} did not start:\n" + "".join(said[-40:]))
        drain = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
        drain.start()
        yield running
        process.stdin.close()
        if process.wait(_STOP_SECONDS):
            raise RuntimeError(f"the server of {tree} did not end well:\n" + "".join(said[-40:]))
        drain.join()
    finally:
        if process.poll() is None:
            # Not SIGKILL: the block that it is in ends the graph.
            process.send_signal(signal.SIGINT)
            process.wait(_STOP_SECONDS)


def _announced(lines: IO[str], said: list[str]) -> Running | None:
    for line in lines:
        said.append(line)
        if line.startswith("AURICLE_BEFORE "):
            _, pid, url = line.split()
            return Running(url, int(pid))
    return None


def _git(*arguments: str) -> str:
    found = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return found.stdout.strip()
