"""Run one benchmark by its name.

python -m benchmarks.run                    the names, each with its first line
python -m benchmarks.run NAME [options]     the same as python -m benchmarks.NAME
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from types import ModuleType

from benchmarks import harness
from benchmarks.registry import NAMES


def module_of(name: str) -> ModuleType:
    """Return the module of a benchmark. Raises ModuleNotFoundError if there is none."""
    found = importlib.import_module(f"benchmarks.{name}")
    return importlib.import_module(f"benchmarks.{name}.__main__") if _is_package(found) else found


def _is_package(module: ModuleType) -> bool:
    return hasattr(module, "__path__")


def main() -> None:
    """Run the benchmark that the command line names, or list all."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        for name in NAMES:
            print(f"{name:24} {(module_of(name).__doc__ or '').splitlines()[0]}")
        return
    if sys.argv[1] not in NAMES:
        sys.exit(f"unknown benchmark {sys.argv[1]!r}; known: {', '.join(NAMES)}")
    module = module_of(sys.argv.pop(1))
    if (benchmark := getattr(module, "BENCHMARK", None)) is not None:
        harness.main(benchmark)
    else:
        runpy.run_module(module.__name__, run_name="__main__")


if __name__ == "__main__":
    main()
