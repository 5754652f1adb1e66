"""Paced load on a running server, or the whole suite.

    python -m benchmarks.load --url http://127.0.0.1:8080 --sessions 8 --seconds 60
    python -m benchmarks.load --suite --out FILE [--quick] [--only GROUP]

The first form takes any server that speaks one of the protocols and prints the figures of
METRICS.md. Needs `python -m models.training.corpus build/demo-corpus`; the suite also
needs `make bench-env` and `python -m benchmarks.checkpoints 60m --output build/checkpoints/60m`.
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
from benchmarks.load.trial import Load, run_trial
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
    suite.add_argument("--quick", action="store_true", help="under 15 minutes, without the soak")
    suite.add_argument("--only", metavar="GROUP")
    arguments = parser.parse_args()
    # So that servers under load end with us, however we are told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments.suite:
        from benchmarks.load.suite import run_suite

        run_suite(arguments.out, quick=arguments.quick, only=arguments.only)
        return
    figures = _one(arguments)
    if arguments.out:
        result = {"figures": figures, "environment": environment()}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in figures.items():
        print(f"{name:28} {value:.6g}")


def _one(arguments: argparse.Namespace) -> dict[str, float]:
    load = Load(
        arguments.sessions,
        arguments.seconds,
        arguments.packet_ms,
        Slo(chunk_seconds=arguments.chunk_ms / 1000),
    )
    planner = Planner(SpeechStyle(tuple(arguments.lengths)), arguments.seed)
    target = protocols.Target(arguments.url, arguments.model, arguments.chunk_ms)
    trial = asyncio.run(run_trial(load, planner, protocols.protocol(arguments.protocol), target))
    return {"valid": float(trial.valid)} | trial.figures()


if __name__ == "__main__":
    main()
