"""What the commands of several benchmarks have in common: their scale, and the JSON they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.streaming.environment import environment

Result = dict[str, Any]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of `--out` and of the `scale`: `full`, `quick` or `smoke`."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--out", type=Path, required=True)
    scale = found.add_mutually_exclusive_group()
    scale.add_argument("--quick", dest="scale", action="store_const", const="quick")
    scale.add_argument(
        "--smoke", dest="scale", action="store_const", const="smoke", help="only whether it runs"
    )
    found.set_defaults(scale="full")
    return found


def kept(out: Path) -> Result:
    """Return the result that `out` has from before; an empty one if there is none."""
    result: Result = json.loads(out.read_text()) if out.exists() else {}
    return result


def write(out: Path, result: Result) -> None:
    """Write a result and where it was measured."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result | {"environment": environment()}, indent=1) + "\n")


def tell(figures: Mapping[str, float]) -> None:
    """Print figures as they become known."""
    for name, value in figures.items():
        print(f"{name:46} {value:.4g}", flush=True)
