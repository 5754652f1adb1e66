"""CPU profiles of a server's processes under load, by py-spy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.load.usage import process_name

_RATE = 100  # samples a second
_ENDING_SECONDS = 30.0
_PROFILED = ("Frontend", "Processor", "EncodeWorker", "PdWorker", "vLLM engine")


@contextlib.contextmanager
def profiled(root: psutil.Process, seconds: int, directory: Path) -> Iterator[dict[str, Path]]:
    """Yield files with the folded stacks of each process below `root`, by component.

    The files cover `seconds` from now on, suit any flame graph viewer, and are complete when the
    block has ended.
    """
    spy = Path(sys.executable).with_name("py-spy")
    files: dict[str, Path] = {}
    running: list[subprocess.Popen[bytes]] = []
    for process in root.children(recursive=True):
        name = process_name(process)
        if name not in _PROFILED:
            continue
        files[name] = directory / f"profile-{name.replace(' ', '-')}.txt"
        command = [
            *(str(spy), "record", "--gil", "--format", "raw", "--nonblocking"),
            *("--rate", str(_RATE), "--duration", str(seconds)),
            *("--output", str(files[name]), "--pid", str(process.pid)),
        ]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    try:
        yield files
    finally:
        for one in running:
            try:
                one.wait(timeout=seconds + _ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()


def hottest(folded: str, count: int = 12) -> dict[str, float]:
    """Return the shares of own time by function, from py-spy's folded stacks."""
    own: Counter[str] = Counter()
    for line in folded.splitlines():
        stack, _, samples = line.rpartition(" ")
        own[stack.rpartition(";")[2].rpartition(":")[0] or stack] += int(samples)
    total = max(1, own.total())
    return {name: samples / total for name, samples in own.most_common(count)}
