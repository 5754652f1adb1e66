"""Measures CPU seconds and memory of a server's processes during a block, by component."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class Usage:
    """CPU seconds by process name; memory (PSS, MiB) by process name, over time.

    `own` is the memory that is not mapped from files. The share of files changes with other servers
    that have the same libraries open, and with the kernel's need for memory.
    """

    cpu_seconds: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[float, Counter[str]]] = field(default_factory=list)  # (seconds, MiB)
    own: list[tuple[float, Counter[str]]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def memory(self) -> list[tuple[float, float]]:
        """Return (seconds, MiB) of all processes together."""
        return [(seconds, float(sum(mib.values()))) for seconds, mib in self.samples]

    @property
    def own_memory(self) -> list[tuple[float, float]]:
        """Return (seconds, MiB) of all processes together, without files."""
        return [(seconds, float(sum(mib.values()))) for seconds, mib in self.own]

    def own_memory_of(self, name: str) -> list[tuple[float, float]]:
        """Return (seconds, MiB) of the processes of one name, without files."""
        return [(seconds, float(mib[name])) for seconds, mib in self.own]

    @property
    def total_cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes."""
        return sum(self.cpu_seconds.values())

    @property
    def peak_mib(self) -> float:
        """Return the largest sample, in MiB."""
        return max((mib for _, mib in self.memory), default=0.0)


def process_name(process: psutil.Process) -> str:
    """Return the component's name, or a short name of the command."""
    command = process.cmdline()
    for at, part in enumerate(command):
        if part == "component" and at + 1 < len(command):
            return command[at + 1]
    joined = " ".join([process.name(), *command])
    for part, name in (
        ("EngineCore", "vLLM engine"),
        ("SGLang::Engine", "SGLang engine"),
        ("VLLM::Worker", "vLLM engine worker"),
        ("resource_tracker", "resource tracker"),
        ("forkserver", "forkserver"),
        ("auricle serve", "launcher"),
    ):
        if part in joined:
            return name
    return next((c.rpartition(".")[2] for c in command if c.startswith("benchmarks.")), "other")


def _family(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [root, *root.children(recursive=True)]
    return []


def _cpu(root: psutil.Process) -> Counter[str]:
    """Processes that have ended, such as those that decode recordings, count for their parent."""
    total: Counter[str] = Counter()
    for process in _family(root):
        with contextlib.suppress(psutil.Error):
            total[process_name(process)] += sum(process.cpu_times()[:4])  # type: ignore[assignment]
    return total


def memory_mib(root: psutil.Process) -> Counter[str]:
    """Return the proportional set size by process name, which counts shared memory once."""
    return _memory(root)[0]


def _memory(root: psutil.Process) -> tuple[Counter[str], Counter[str]]:
    """Return the proportional set size by process name, and the part not mapped from files."""
    whole: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for process in _family(root):
        with contextlib.suppress(psutil.Error, OSError):
            name, mib = process_name(process), _proportional(process.pid)
            whole[name] += mib["Pss"]  # type: ignore[assignment]
            own[name] += mib["Pss_Anon"] + mib["Pss_Shmem"]  # type: ignore[assignment]
    return whole, own


def _proportional(pid: int) -> dict[str, float]:
    """Return the proportional set sizes of a process in MiB, by kind."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {name.rstrip(":"): int(kib) / 1024 for name, kib, *_ in fields}


@contextlib.contextmanager
def measured(root: psutil.Process, memory_every: float = 5.0) -> Iterator[Usage]:
    """Yield the usage of `root` and its descendants, complete when the block has ended."""
    usage, ended, began = Usage(), threading.Event(), time.monotonic()
    before = _cpu(root)

    def sample() -> None:
        while True:
            now, (whole, own) = time.monotonic() - began, _memory(root)
            usage.samples.append((now, whole))
            usage.own.append((now, own))
            if ended.wait(memory_every):
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        ended.set()
        thread.join()
        usage.seconds = time.monotonic() - began
        usage.cpu_seconds = _cpu(root)
        usage.cpu_seconds.subtract(before)
