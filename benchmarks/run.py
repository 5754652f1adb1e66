"""Run one benchmark by its name.

python -m benchmarks.run                    the names, each with its first line
python -m benchmarks.run NAME [options]     the same as python -m benchmarks.NAME
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

from benchmarks.registry import NAMES

_HERE = Path(__file__).parent


def first_line(name: str) -> str:
    """Return the first line of a benchmark's docstring, without importing the benchmark."""
    path = _HERE / name.replace(".", "/")
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def main() -> None:
    """Run the benchmark that the command line names, or list all."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        for name in NAMES:
            print(f"{name:24} {first_line(name)}")
        return
    if sys.argv[1] not in NAMES:
        sys.exit(f"unknown benchmark {sys.argv[1]!r}; known: {', '.join(NAMES)}")
    name = sys.argv.pop(1)
    runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
