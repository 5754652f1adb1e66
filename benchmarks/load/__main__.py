"""Paced load on a running server, or the whole suite.

    python -m benchmarks.load --url http://127.0.0.1:8080 --sessions 8 --seconds 60
    python -m benchmarks.load --suite --out FILE [--quick | --smoke] [--only GROUP]

The first form takes any server that speaks one of the protocols and prints the figures of
METRICS.md. If the load was not valid, it prints the reason instead and exits with 1. The suite
needs `make bench-env`; `--quick` leaves out the soak and the capacities of the baselines, which
`--only demo heavier` measures, and took 14 minutes on two cores. Speech and checkpoints are made if
they are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import harness
from benchmarks.harness import Benchmark, Run
from benchmarks.load import protocols
from benchmarks.load.groups import FULL_ONLY, GROUPS
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.plots import draw
from benchmarks.load.trial import Load, Trial, run_trial


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--model", default="demo", help="its name on the server")
    parser.add_argument("--protocol", choices=protocols.NAMES, default="stream")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--lengths", type=float, nargs=2, default=(5.0, 60.0), metavar=("MIN", "MAX")
    )
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--packet-ms", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)


def _one(run: Run) -> dict[str, float]:
    arguments = run.arguments
    slo = Slo(chunk_seconds=arguments.chunk_ms / 1000)
    load = Load(arguments.sessions, arguments.seconds, arguments.packet_ms, slo)
    planner = Planner(SpeechStyle(tuple(arguments.lengths)), arguments.seed)
    target = protocols.Target(arguments.url, arguments.model, arguments.chunk_ms)
    trial = asyncio.run(run_trial(load, planner, protocols.protocol(arguments.protocol), target))
    if trial.invalid:
        raise SystemExit(f"invalid: {trial.invalid}{_advice(arguments, trial)}")
    return trial.figures()


def _advice(arguments: argparse.Namespace, trial: Trial) -> str:
    """Return how to make the load valid, if sessions are too long for its duration."""
    if trial.records:
        return ""
    low, high = arguments.lengths
    return (
        f"; sessions take {low:g} to {high:g} s, and those that end after the first "
        f"{min((low + high) / 2, arguments.seconds / 3):.0f} s count: "
        f"give --seconds {2 * high:g} or shorter --lengths"
    )


@contextmanager
def _with_plots(run: Run) -> Iterator[None]:
    yield
    draw(run.details, run.folder)


ONE = Benchmark(
    description=__doc__, parts={"load": _one}, arguments=_arguments, sizes=(), out="optional"
)
SUITE = Benchmark(description=__doc__, parts=GROUPS, around=_with_plots, full_only=FULL_ONLY)


def main() -> None:
    """Run one load or, with `--suite`, all groups."""
    words = [word for word in sys.argv[1:] if word != "--suite"]
    harness.main(SUITE if "--suite" in sys.argv else ONE, words)


if __name__ == "__main__":
    main()
