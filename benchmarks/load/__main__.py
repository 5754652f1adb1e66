"""Paced load on a running server, or the whole suite.

    python -m benchmarks.load --url http://127.0.0.1:8080 --sessions 8 --seconds 60
    python -m benchmarks.load --suite --out FILE [--quick | --smoke] [--only GROUP]

The first form takes any server that speaks one of the protocols and prints the figures of
METRICS.md. If the load was not valid, it prints the reason instead and exits with 1.
The suite needs `make bench-env`. Speech and checkpoints are made if they are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from benchmarks.load import protocols
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.streaming.environment import environment


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    one = parser.add_argument_group("one load on a running server")
    one.add_argument("--url", default="http://127.0.0.1:8080")
    one.add_argument("--model", default="demo", help="its name on the server")
    one.add_argument("--protocol", choices=protocols.NAMES, default="stream")
    one.add_argument("--sessions", type=int, default=4)
    one.add_argument("--seconds", type=float, default=60.0)
    one.add_argument("--lengths", type=float, nargs=2, default=(5.0, 60.0), metavar=("MIN", "MAX"))
    one.add_argument("--chunk-ms", type=int, default=640)
    one.add_argument("--packet-ms", type=int, default=100)
    one.add_argument("--seed", type=int, default=1)
    suite = parser.add_argument_group("the whole suite")
    suite.add_argument("--suite", action="store_true")
    scale = suite.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="about 40 minutes, without the soak")
    scale.add_argument("--smoke", action="store_true", help="only whether everything runs")
    suite.add_argument("--only", metavar="GROUP")
    arguments = parser.parse_args()
    # So that servers under load end with us, however we are told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments.suite:
        from benchmarks.load.suite import run_suite

        if arguments.out is None:
            parser.error("--suite needs --out FILE")
        size = "quick" if arguments.quick else "smoke" if arguments.smoke else "full"
        run_suite(arguments.out, scale=size, only=arguments.only)
        return
    trial = _one(arguments)
    if trial.invalid:
        raise SystemExit(f"invalid: {trial.invalid}{_advice(arguments, trial)}")
    figures = trial.figures()
    if arguments.out:
        result = {"figures": figures, "environment": environment()}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in figures.items():
        print(f"{name:28} {value:.6g}")


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


def _one(arguments: argparse.Namespace) -> Trial:
    load = Load(
        arguments.sessions,
        arguments.seconds,
        arguments.packet_ms,
        Slo(chunk_seconds=arguments.chunk_ms / 1000),
    )
    planner = Planner(SpeechStyle(tuple(arguments.lengths)), arguments.seed)
    target = protocols.Target(arguments.url, arguments.model, arguments.chunk_ms)
    return asyncio.run(run_trial(load, planner, protocols.protocol(arguments.protocol), target))


if __name__ == "__main__":
    main()
