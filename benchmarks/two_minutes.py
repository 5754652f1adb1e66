"""What this machine carries with the demo model, in two minutes, with a plot.

    make bench [URL=http://127.0.0.1:8080]
    python -m benchmarks.two_minutes [--url URL] [--out FOLDER]

More and more sessions are opened, twenty seconds each time, until fewer than 99% of them are inside
the latency objective or the server refuses one. Without `--url` a server is started for it. The
figures are those of METRICS.md, over so few sessions that they are an impression, not a result.
Writes two-minutes.json and two-minutes.svg into FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.trial import Load, run_trial
from benchmarks.streaming.environment import environment
from tests.server import AS_DELIVERED, serving

STEPS = (1, 4, 8, 16, 32, 64)
_STYLE = SpeechStyle((4.0, 8.0))
_CHUNK_MS = 640
_KEPT = 0.99
Step = dict[str, float]


def ramp(url: str, steps: tuple[int, ...], seconds: float, console: Console) -> list[Step]:
    """Measure each number of sessions, up to the first that the server does not carry.

    A load that could not be offered on time ends the ramp, too: the machine is full then.
    """
    found: list[Step] = []
    _measure(url, 1, 9.0)  # not counted: first contact, and kernels of all shapes
    for sessions in steps:
        with console.status(f"{sessions} sessions for {seconds:g} s"):
            step = _measure(url, sessions, seconds)
        found.append(step)
        console.print(_line(step))
        if not carried(step):
            break
    return found


def carried(step: Step) -> bool:
    """Whether the sessions of a step were inside the objective, and none was refused."""
    return bool(step["valid"]) and step["slo_share"] >= _KEPT and step["refused"] == 0


def _measure(url: str, sessions: int, seconds: float) -> Step:
    load = Load(sessions, seconds, slo=Slo(_CHUNK_MS / 1000))
    planner = Planner(_STYLE, seed=sessions)
    trial = asyncio.run(
        run_trial(load, planner, protocol("stream"), Target(url, "demo", _CHUNK_MS))
    )
    refused = sum(record.outcome == "refused" for record in trial.offered)
    counted = {"sessions": float(sessions), "refused": float(refused), "valid": float(trial.valid)}
    return counted | {"slo_share": trial.slo_share} | trial.figures()


def _line(step: Step) -> str:
    lag, stop = (step.get(f"{name}_p95_ms", math.nan) for name in ("partial_lag", "stop_to_final"))
    verdict = "carried" if carried(step) else "too many"
    return (
        f"{step['sessions']:4.0f} sessions: {verdict:8}  text behind speech {lag:5.0f} ms, "
        f"last text {stop:5.0f} ms after the end (95th percentiles), "
        f"{step['refused']:.0f} refused"
    )


def draw(found: list[Step]) -> Figure:
    """Return the plot of latency against sessions, with the objective's two limits."""
    slo = Slo(_CHUNK_MS / 1000)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    at = [step["sessions"] for step in found]
    for name, label, limit, colour in (
        ("partial_lag", "text behind speech", slo.lag_seconds, "tab:blue"),
        ("stop_to_final", "last text after the end", slo.stop_seconds, "tab:orange"),
    ):
        values = [step.get(f"{name}_p95_ms", math.nan) for step in found]
        finite = [value if math.isfinite(value) else math.nan for value in values]
        axes.plot(at, finite, marker="o", label=label, color=colour)
        axes.axhline(1000 * limit, linestyle=":", color=colour, label=f"limit of {label}")
    axes.set_xlabel("sessions at a time")
    axes.set_ylabel("milliseconds, 95th percentile")
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [f"{count:.0f}" for count in at])
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def measure(url: str, out: Path, steps: tuple[int, ...], seconds: float) -> None:
    """Run the ramp on a server, print what it carries, and write the figures and the plot."""
    console = Console(highlight=False)
    found = ramp(url, steps, seconds, console)
    most = max((step["sessions"] for step in found if carried(step)), default=0.0)
    console.print(f"Of these, the most that this machine carries: {most:.0f} sessions.")
    out.mkdir(parents=True, exist_ok=True)
    steps_found = [{k: v if math.isfinite(v) else None for k, v in s.items()} for s in found]
    result: dict[str, Any] = {"carried": most, "steps": steps_found, "environment": environment()}
    (out / "two-minutes.json").write_text(json.dumps(result, indent=1) + "\n")
    plot = out / "two-minutes.svg"
    draw(found).savefig(plot)
    console.print(f"Plot: {plot}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="of a server that runs; default: one is started")
    parser.add_argument("--out", type=Path, default=Path("build/two-minutes"), help="folder")
    parser.add_argument("--smoke", action="store_true", help="only whether it runs")
    arguments = parser.parse_args()
    steps, seconds = ((1, 2), 12.0) if arguments.smoke else (STEPS, 20.0)
    if arguments.url:
        measure(arguments.url, arguments.out, steps, seconds)
        return
    with serving(*AS_DELIVERED) as server:
        measure(server.url, arguments.out, steps, seconds)


if __name__ == "__main__":
    main()
