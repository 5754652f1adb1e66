"""Plots of docs/tuning.md, drawn from published tables.

    python -m benchmarks.tuning [--out benchmarks/plots]

Segments: `python -m benchmarks.ways.lengths`, in the card of models/demo. The window:
`python -m benchmarks.encoder_work`, block size: `python -m benchmarks.kv_reuse`, chunk and
rollback: `python -m benchmarks.ways.cadence`, all in RESULTS.md. Each plot contains its rows, so
that a test can check whether it is current.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.harness import Benchmark, Run, main
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
    """Return the plot of the encoder's work, by the audio that a chunk encodes, and by geometry."""
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


def draw_chunks(rows: Rows) -> Figure:
    """Return the plots of work, of how late words are, and of how often they change, by chunk."""
    body = rows[1:]
    chunk = [_number(row[0]) for row in body]
    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, label, lines in zip(
        figure.subplots(1, 3),
        ("work per second of audio", "seconds after a word was spoken", "of 100 words"),
        (
            {"decodes": 1, "seconds encoded": 2, "tokens written": 3},
            {"shown": 4, "committed": 5, "committed, 95%": 6},
            {"changed after they were shown": 7, "wrong in the end": 8},
        ),
        strict=True,
    ):
        for name, column in lines.items():
            axes.plot(chunk, [_number(row[column]) for row in body], marker="o", label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(chunk, [f"{value:g}" for value in chunk], fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel("chunk_ms")
        axes.set_title(label, fontsize=10)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def draw_rollbacks(rows: Rows) -> Figure:
    """Return the plot of words committed wrongly against how late they are committed."""
    head, *body = rows
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axes, column, label in zip(
        figure.subplots(1, 2), (2, 3), ("median", "95th percentile"), strict=True
    ):
        for settled in dict.fromkeys(row[1] for row in body):
            some = [row for row in body if row[1] == settled]
            late = [_number(row[column]) for row in some]
            wrong = [_number(row[4]) for row in some]
            axes.plot(late, wrong, marker="o", label=f"{head[1]} {settled}")
            for row, x, y in zip(some, late, wrong, strict=True):
                axes.annotate(row[0], (x, y), (3, 4), textcoords="offset points", fontsize=8)
        axes.set_xlabel("committed, seconds after a word was spoken")
        axes.set_ylabel("words not of the whole segment, %")
        axes.set_title(f"{label}; at each point its {head[0]}", fontsize=10)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return figure


def _published(document: Path, first: str) -> Callable[[], Rows]:
    return lambda: table(document.read_text(), first)


KINDS: dict[str, tuple[Callable[[], Rows], Callable[[Rows], Figure]]] = {
    "tuning-chunk": (_published(_RESULTS, "chunk_ms"), draw_chunks),
    "tuning-rollback": (_published(_RESULTS, "rollback_tokens"), draw_rollbacks),
    "tuning-segments": (_published(_CARD, "pause_after_seconds"), draw_segments),
    "tuning-window": (_published(_RESULTS, "geometry"), draw_encoder_work),
    "tuning-block-size": (_published(_RESULTS, "block size"), draw_block_sizes),
}


def drawn_from(plot: Path) -> Rows:
    """Return the rows from which a plot was drawn."""
    found = _DESCRIPTION.search(plot.read_text())
    if found is None:
        raise ValueError(f"{plot} does not contain its rows")
    rows: Rows = json.loads(found[1].replace("&quot;", '"'))
    return rows


def _draw(run: Run) -> None:
    run.arguments.folder.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "auricle"  # the same plot is the same file
    for name, (rows, draw) in KINDS.items():
        found = rows()
        plot = run.arguments.folder / f"{name}.svg"
        draw(found).savefig(plot, metadata={"Date": None, "Description": json.dumps(found)})
        print(plot)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, dest="folder", default=PLOTS, help="folder")


BENCHMARK = Benchmark(
    description=__doc__, parts={"plots": _draw}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
