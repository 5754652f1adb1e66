"""Draws the plots of docs/tuning.md from what the benchmarks have published.

    python -m benchmarks.tuning [--out benchmarks/plots]

Segments: `python -m benchmarks.ways.lengths`, in the card of models/demo. The window:
`python -m benchmarks.encoder_work`, and block size: `python -m benchmarks.kv_reuse`, both in
RESULTS.md. Each plot carries its rows, by which a test sees whether it is current.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.prepared import ROOT

_CARD, _RESULTS = ROOT / "models/demo/README.md", ROOT / "benchmarks/RESULTS.md"
PLOTS = ROOT / "benchmarks/plots"
_DESCRIPTION = re.compile(r"<dc:description>(.*?)</dc:description>", re.DOTALL)
Rows = list[list[str]]


def table(document: str, first: str) -> Rows:
    """Return the table whose first heading is `first`, headings included, without backticks.

    Raises ValueError if there is none.
    """
    found: Rows = []
    for line in document.splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("| ").split("|")]
        if not found and not (line.startswith("|") and cells[0] == first):
            continue
        if not line.startswith("|"):
            break
        if set(line) - set("|-"):
            found.append(cells)
    if not found:
        raise ValueError(f"no table begins with {first!r}")
    return found


def segments() -> Rows:
    """Return word error rates by `pause_after_seconds`, with and without context."""
    return table(_CARD.read_text(), "pause_after_seconds")


def block_sizes() -> Rows:
    """Return what is found again of the KV cache, and the time per decode, by block size."""
    return table(_RESULTS.read_text(), "block size")


def encoder_work() -> Rows:
    """Return the encoder's work by what is encoded at a chunk."""
    return table(_RESULTS.read_text(), "geometry")


def _number(cell: str) -> float:
    """Return the number that a cell begins with."""
    found = re.match(r"[\d.]+", cell)
    if found is None:
        raise ValueError(f"{cell!r} does not begin with a number")
    return float(found[0])


def draw_segments(rows: Rows) -> Figure:
    """Return the plot of word errors against the length from which a segment ends at a pause."""
    head, *body = rows
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    for number, kind in enumerate(head[2:], start=2):
        for context, style in ((0, "-"), (120, "--")):
            some = [row for row in body if int(row[1]) == context]
            label = f"{kind}{', with context' if context else ''}"
            points = [_number(row[0]) for row in some], [_number(row[number]) for row in some]
            axes.plot(*points, style, marker="o", color=f"C{number - 2}", label=label)
    axes.set_xlabel("pause_after_seconds")
    axes.set_ylabel("word error rate, %")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    return figure


def draw_block_sizes(rows: Rows) -> Figure:
    """Return the plot of KV found again and of the time per decode, by block size."""
    body = rows[1:]
    sizes = [f"{_number(row[0]):.0f}" for row in body]
    figure = Figure(figsize=(7, 3), layout="constrained")
    for axes, column, label in zip(
        figure.subplots(1, 2),
        (1, 3),
        ("KV found again, of what could be", "time per decode ÷ that with 32"),
        strict=True,
    ):
        axes.bar(sizes, [_number(row[column]) for row in body], width=0.6)
        axes.set_xlabel("block_size")
        axes.set_title(label, fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    return figure


def draw_encoder_work(rows: Rows) -> Figure:
    """Return the plot of the encoder's work, by what is encoded at a chunk and by geometry."""
    body = rows[1:]
    geometries = list(dict.fromkeys(row[0] for row in body))
    figure = Figure(figsize=(7.5, 2.2), layout="constrained")
    for axes, geometry in zip(
        figure.subplots(1, len(geometries), squeeze=False)[0], geometries, strict=True
    ):
        some = [row for row in body if row[0] == geometry]
        axes.barh([row[1] for row in some], [_number(row[4]) for row in some], height=0.6)
        axes.invert_yaxis()
        axes.tick_params(labelsize=8)
        axes.set_xlabel("GFLOP per second of audio", fontsize=8)
        axes.set_title(geometry, fontsize=10)
        axes.grid(axis="x", alpha=0.3)
        axes.label_outer()
    return figure


KINDS: dict[str, tuple[Callable[[], Rows], Callable[[Rows], Figure]]] = {
    "tuning-segments": (segments, draw_segments),
    "tuning-window": (encoder_work, draw_encoder_work),
    "tuning-block-size": (block_sizes, draw_block_sizes),
}


def drawn_from(plot: Path) -> Rows:
    """Return the rows that a plot was drawn from."""
    found = _DESCRIPTION.search(plot.read_text())
    if found is None:
        raise ValueError(f"{plot} does not say what it was drawn from")
    rows: Rows = json.loads(found[1].replace("&quot;", '"'))
    return rows


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PLOTS, help="folder")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "auricle"  # the same plot is the same file
    for name, (rows, draw) in KINDS.items():
        found = rows()
        plot = arguments.out / f"{name}.svg"
        meant = {"Date": None, "Description": json.dumps(found)}
        draw(found).savefig(plot, metadata=meant)
        print(plot)


if __name__ == "__main__":
    main()
