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
# Runs inside the tree, so that servers get the options that the tree's own benchmarks use, and no
# option that the tree lacks. A server that skips grid points or lengthens the cadence because this
# machine is slow would do different work from the server that it is compared with.
_START = """
import pathlib, sys
try:
    from auricle.settings import ProcessorSettings  # an older tree
except ModuleNotFoundError:
    from auricle.config.settings import ProcessorSettings
from benchmarks.streaming.cost import server_options
try:
    from tests.server import serving  # an older tree
except ModuleNotFoundError:
    from auricle_testing.server import serving
model = sys.argv[1]
options = server_options(pathlib.Path(model), 30.0) if model else []
unhurried = {"target_chunk_ms": 10**9, "assured_sessions": 64, "admission": "fixed"}
has = ProcessorSettings.model_fields
options += [f"--Processor.{key}={value}" for key, value in unhurried.items() if key in has]
with serving(*options) as server:
    print(f"AURICLE_BEFORE {server.process.pid} {server.url}", flush=True)
    sys.stdin.read()
"""
# Frontend and processor with the simulated workers that the tree has itself.
_START_CONTROL = """
import sys
from benchmarks.load.control.sessions import control_plane
with control_plane() as (url, processes):
    pids = ",".join(str(process.pid) for process in processes.values())
    print(f"AURICLE_BEFORE {pids} {url}", flush=True)
    sys.stdin.read()
"""
_STOP_SECONDS = 90.0


class NoSuchCommit(Exception):
    """The clone does not have the commit: it is shallow, or the name is wrong."""


@dataclass(frozen=True)
class Tree:
    """The files of a commit, and a folder of packages that only this commit needs."""

    path: Path
    packages: Path | None = None

    @property
    def search_path(self) -> str:
        """The value of PYTHONPATH."""
        packages = () if self.packages is None else (self.packages.resolve(),)
        return ":".join(map(str, (*packages, self.path / "components", self.path)))


@dataclass(frozen=True)
class Running:
    """A graph at `url`; the CPU of the processes `pids` and of their descendants counts."""

    url: str
    pids: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that these processes have used."""
        return sum(cpu_seconds(psutil.Process(pid)) for pid in self.pids)


@contextlib.contextmanager
def work_tree(commit: str, packages: Path | None = None) -> Iterator[Tree]:
    """Check a commit out under build/ until the block ends.

    Raises NoSuchCommit.
    """
    try:
        name = _git("rev-parse", "--short=12", "--verify", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise NoSuchCommit(f"commit {commit} is not in this clone") from None
    path = _TREES / f"{name}-{os.getpid()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    _git("worktree", "add", "--force", "--detach", str(path), name)
    try:
        yield Tree(path, packages)
    finally:
        _git("worktree", "remove", "--force", str(path))


def serving_tree(
    tree: Tree, model: Path | None = None
) -> contextlib.AbstractContextManager[Running]:
    """Start the graph from the files of `tree`, with this environment's packages.

    It serves models/demo, or `model` set up as for the cost of streaming. Raises RuntimeError
    with the end of its output if it does not start, or does not end cleanly.
    """
    return _started(tree, _START, str(model.resolve()) if model else "")


def control_plane_of(tree: Tree) -> contextlib.AbstractContextManager[Running]:
    """Start frontend and processor of `tree`, whose CPU counts, with simulated workers.

    Raises RuntimeError as `serving_tree` does.
    """
    return _started(tree, _START_CONTROL)


@contextlib.contextmanager
def _started(tree: Tree, program: str, *arguments: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=tree.path,
        env=os.environ | {"PYTHONPATH": tree.search_path},
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
            raise RuntimeError(f"the server of {tree.path} did not start:\n" + "".join(said[-40:]))
        drain = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
        drain.start()
        yield running
        process.stdin.close()
        if process.wait(_STOP_SECONDS):
            raise RuntimeError(
                f"the server of {tree.path} did not end well:\n" + "".join(said[-40:])
            )
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
            _, pids, url = line.split()
            return Running(url, tuple(int(pid) for pid in pids.split(",")))
    return None


def _git(*arguments: str) -> str:
    found = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return found.stdout.strip()
