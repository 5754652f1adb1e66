"""`auricle bench`: the benchmark of two minutes, which belongs to the repository."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from auricle.errors import SettingsError

_MODULE = Path("benchmarks/two_minutes.py")
# What it needs beyond the server's own packages.
_NEEDED = ("matplotlib", "jiwer")


def become_benchmark(url: str | None, out: Path) -> NoReturn:
    """Replace this process by the benchmark, so that Ctrl-C and the exit status are its own.

    Raises SettingsError outside of the repository, or without the packages of development.
    """
    if not _MODULE.exists():
        raise SettingsError(
            f"{_MODULE} is not here ({Path.cwd()}): run auricle bench in the folder of auricle's "
            "repository"
        )
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise SettingsError(f"{', '.join(missing)} is not installed: run make setup-dev")
    command = [sys.executable, "-m", "benchmarks.two_minutes", "--out", str(out)]
    os.execv(sys.executable, command + (["--url", url] if url else []))
