"""Cost per chunk, within a segment and over a session, ours and the baselines'."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from auricle_testing.feed import CHUNK, SAMPLE_RATE, ChunkTime
from benchmarks.streaming.cost import Cost

_NAMES = {"a": "transformers, all audio again", "b": "stock vLLM, all audio again"}


def draw(cost: Cost, directory: Path) -> None:
    """Writes `chunk-segment.svg` and `chunk-session.svg`."""
    directory.mkdir(parents=True, exist_ok=True)
    _within_a_segment(cost).savefig(directory / "chunk-segment.svg")
    _over_a_session(cost).savefig(directory / "chunk-session.svg")


def _within_a_segment(cost: Cost) -> Figure:
    figure, axes = _axes("seconds into the segment")
    axes.plot(*_by(cost.chunks, in_segment=True), ".", ms=3, label="auricle, 30 s segments")
    for name, rows in cost.baselines.items():
        short = [(seconds, wall) for seconds, wall, _ in rows if seconds <= 60]
        axes.plot(*zip(*short, strict=True), label=_NAMES[name])
    axes.legend()
    return figure


def _over_a_session(cost: Cost) -> Figure:
    figure, axes = _axes("seconds into the session")
    session = cost.chunks[: int(300 * SAMPLE_RATE / CHUNK)]
    axes.plot(*_by(session, in_segment=False), ".", ms=2, label="auricle, 30 s segments")
    axes.plot(*_by(cost.capped, in_segment=True), ".", ms=2, label="auricle, one segment")
    for name, rows in cost.baselines.items():
        axes.plot(*zip(*((s, wall) for s, wall, _ in rows), strict=True), label=_NAMES[name])
    axes.set_yscale("log")
    axes.legend()
    return figure


def _axes(label: str) -> tuple[Figure, object]:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(label)
    axes.set_ylabel("seconds per 640 ms chunk")
    axes.grid(alpha=0.3)
    return figure, axes


def _by(chunks: list[ChunkTime], *, in_segment: bool) -> tuple[list[float], list[float]]:
    at = [
        chunk.offset if in_segment else (number + 1) * CHUNK / SAMPLE_RATE
        for number, chunk in enumerate(chunks)
    ]
    return at, [chunk.seconds for chunk in chunks]
