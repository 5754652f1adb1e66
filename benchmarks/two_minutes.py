"""The sessions that this machine carries with the demo model, in two minutes, with a plot.

    make bench [URL=http://127.0.0.1:8080]
    python -m benchmarks.two_minutes [--url URL] [--out FOLDER]

The number of sessions grows, twenty seconds each time, until fewer than 99% of them are inside the
latency objective or the server refuses one. Without `--url` a server is started for it. METRICS.md
defines the figures; with so few sessions they are an impression, not a result.
Writes two-minutes.json and two-minutes.svg into FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from auricle_testing.server import AS_DELIVERED, serving
from benchmarks import harness
from benchmarks.harness import Benchmark, Run
from benchmarks.load.metrics import Slo, partial_latencies
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.spans import ORDER, Span, collecting, waterfall
from benchmarks.load.trial import Load, run_trial

STEPS = (1, 4, 8, 16, 32, 64)
_STYLE = SpeechStyle((4.0, 8.0))
_CHUNK_MS = 640
_KEPT = 0.99
Step = dict[str, float]


def ramp(url: str, steps: tuple[int, ...], seconds: float, console: Console) -> list[Step]:
    """Measure each number of sessions, up to the first that the server does not carry.

    A load that could not be offered on time ends the ramp, too: the machine is saturated.
    """
    found: list[Step] = []
    _measure(url, 1, 9.0)  # not counted: first contact, and kernels of all shapes
    for sessions in steps:
        with console.status(f"{sessions} sessions for {seconds:g} s"):
            step, _ = _measure(url, sessions, seconds)
        found.append(step)
        console.print(_line(step), soft_wrap=True)
        if not carried(step):
            break
    return found


def carried(step: Step) -> bool:
    """Whether the sessions of a step were inside the objective, and none was refused."""
    return bool(step["valid"]) and step["slo_share"] >= _KEPT and step["refused"] == 0


def _measure(url: str, sessions: int, seconds: float) -> tuple[Step, list[float]]:
    """Return the figures, and the latencies of partial texts in seconds."""
    load = Load(sessions, seconds, slo=Slo(_CHUNK_MS / 1000))
    planner = Planner(_STYLE, seed=sessions)
    trial = asyncio.run(
        run_trial(load, planner, protocol("stream"), Target(url, "demo", _CHUNK_MS))
    )
    refused = sum(record.outcome == "refused" for record in trial.offered)
    counted = {"sessions": float(sessions), "refused": float(refused), "valid": float(trial.valid)}
    latencies = [s for record in trial.records for s in partial_latencies(record)]
    # `sessions` of the trial counts all sessions, one after the other.
    return trial.figures() | counted | {"slo_share": trial.slo_share}, latencies


def _line(step: Step) -> str:
    lag, stop = (step.get(f"{name}_p95_ms", math.nan) for name in ("partial_lag", "stop_to_final"))
    verdict = "carried" if carried(step) else "too many"
    return (
        f"{step['sessions']:4.0f} sessions: {verdict:8}  text behind speech {lag:5.0f} ms, "
        f"last text {stop:5.0f} ms after the end (95th percentiles), "
        f"{step['refused']:.0f} refused"
    )


def steps_of_chunks(url: str, sessions: int, seconds: float, spans: list[Span]) -> dict[str, float]:
    """Return the median milliseconds of each step of a chunk with `sessions` at a time."""
    spans.clear()
    _, latencies = _measure(url, sessions, seconds)
    return {name: 1000 * value for name, value in waterfall(spans, latencies).items()}


def draw(found: list[Step], chunk: dict[str, float]) -> Figure:
    """Return the plot: latency against sessions, with the objective's limits and the capacity.

    Below it the steps of a `chunk` (ms), if there are any.
    """
    figure = Figure(figsize=(7, 7.5 if chunk else 4), layout="constrained")
    axes = figure.subplots(2 if chunk else 1, squeeze=False)[:, 0]
    _draw_latencies(axes[0], found)
    if chunk:
        at = 0.0
        for step in ORDER:
            value = chunk.get(step, 0.0)
            axes[1].barh(step.replace("_", " "), value, left=at, color="tab:blue")
            axes[1].text(at + value, step.replace("_", " "), f" {value:.1f}", va="center", size=8)
            at += value
        axes[1].invert_yaxis()
        axes[1].set_xlim(0, 1.12 * max(at, 1e-3))
        axes[1].set_xlabel("one chunk, milliseconds (medians at half of the capacity)")
    return figure


def _draw_latencies(axes: Axes, found: list[Step]) -> None:
    slo = Slo(_CHUNK_MS / 1000)
    at = [step["sessions"] for step in found]
    for name, label, limit, colour in (
        ("partial_lag", "text behind speech", slo.lag_seconds, "tab:blue"),
        ("stop_to_final", "last text after the end", slo.stop_seconds, "tab:orange"),
    ):
        values = [step.get(f"{name}_p95_ms", math.nan) for step in found]
        finite = [value if math.isfinite(value) else math.nan for value in values]
        axes.plot(at, finite, marker="o", label=label, color=colour)
        axes.axhline(1000 * limit, linestyle=":", color=colour, label=f"limit of {label}")
    if most := most_carried(found):
        axes.axvline(most, color="tab:green", linewidth=6, alpha=0.3, label="carried")
    axes.set_xlabel("sessions at a time")
    axes.set_ylabel("milliseconds, 95th percentile")
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [f"{count:.0f}" for count in at])
    axes.grid(alpha=0.3)
    axes.legend()


def most_carried(found: list[Step]) -> float:
    """Return the largest number of sessions that was carried; 0 if none was."""
    return max((step["sessions"] for step in found if carried(step)), default=0.0)


def measure(
    url: str, out: Path, steps: tuple[int, ...], seconds: float, spans: list[Span] | None = None
) -> None:
    """Run the ramp on a server, print its capacity, and write the figures and the plot.

    `spans` is where the server's traces arrive; without them no steps are drawn.
    """
    console = Console(highlight=False)
    found = ramp(url, steps, seconds, console)
    most = most_carried(found)
    console.print(f"Of these, the most that this machine carries: {most:.0f} sessions.")
    chunk: dict[str, float] = {}
    if spans is not None:
        half = max(1, int(most) // 2)
        with console.status(f"{half} sessions, traced"):
            chunk = steps_of_chunks(url, half, seconds, spans)
    if chunk:
        console.print(f"A chunk's text, of {half} sessions: {chunk['total']:.0f} ms (median).")
    steps_found = [{k: v if math.isfinite(v) else None for k, v in s.items()} for s in found]
    harness.write(
        out / "two-minutes.json", {"carried": most, "steps": steps_found, "chunk_ms": chunk}
    )
    plot = out / "two-minutes.svg"
    draw(found, chunk).savefig(plot)
    console.print(f"Plot: {plot}", soft_wrap=True)


def _two_minutes(run: Run) -> None:
    steps, seconds = ((1, 2), 12.0) if run.size == "smoke" else (STEPS, 20.0)
    if run.arguments.url:
        measure(run.arguments.url, run.arguments.folder, steps, seconds)
        return
    with (
        collecting() as (endpoint, spans),
        serving(*AS_DELIVERED, f"--Common.otlp_endpoint={endpoint}") as server,
    ):
        measure(server.url, run.arguments.folder, steps, seconds, spans)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="of a running server; default: one is started")
    parser.add_argument(
        "--out", type=Path, dest="folder", default=Path("build/two-minutes"), help="folder"
    )


BENCHMARK = Benchmark(
    description=__doc__, parts={"two_minutes": _two_minutes}, arguments=_arguments,
    sizes=("smoke",), out=None,
)  # fmt: skip

if __name__ == "__main__":
    harness.main(BENCHMARK)
