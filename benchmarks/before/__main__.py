"""This tree beside an earlier commit: what a session costs and how soon its text comes.

    python -m benchmarks.before COMMIT --out FILE [--only streaming | load | control] [--pairs N]
                                [--sessions N] [--seconds S]

Both servers run at the same time and get the same audio in turns, in changing order, so that
a machine that becomes slower meets both. Both use this environment's packages. `streaming`
feeds one session of 60 s, chunk after chunk, to the `60m` checkpoint; `load` keeps `--sessions`
live sessions open for `--seconds` on models/demo. `control` does so with packets of 20 ms between
frontend, processor and simulated workers, and counts the CPU of the first two; it runs only if
asked for. Below 1, this tree is better.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from auricle_testing.feed import feed
from benchmarks.before.pairs import Ratio, ratios
from benchmarks.before.trees import Running, control_plane_of, serving_tree, work_tree
from benchmarks.load import protocols
from benchmarks.load.metrics import Slo, partial_latencies, percentile
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.trial import Load, run_trial
from benchmarks.prepared import ROOT, checkpoint
from benchmarks.streaming.cost import speech
from benchmarks.streaming.environment import environment

_SEGMENT_SECONDS, _SESSION_SECONDS, _WARM_SECONDS = 30.0, 60.0, 8.0
_LENGTHS = (5.0, 20.0)
_TRIES = 3
_FIGURES = ("stop_to_final_p50_ms", "stop_to_final_p95_ms")
Measured = dict[str, float]
Measure = Callable[[Running, int], Measured]
Serve = Callable[[Path], contextlib.AbstractContextManager[Running]]
_LARGE = (None, "streaming")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=("streaming", "load", "control"))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("--pairs must be at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    load = Load(arguments.sessions, arguments.seconds)
    found: dict[str, Ratio] = {}
    with work_tree(arguments.commit) as tree:
        pairs, large = arguments.pairs, checkpoint("60m") if arguments.only in _LARGE else None
        if arguments.only in (None, "streaming"):
            found |= _compared(tree, lambda t: serving_tree(t, large), _streaming, pairs)
        if arguments.only in (None, "load"):
            found |= _compared(tree, serving_tree, lambda s, n: _load(s, n, load), pairs)
        if arguments.only == "control":
            small = replace(load, packet_ms=20)
            found |= _compared(tree, control_plane_of, lambda s, n: _control(s, n, small), pairs)
    result = {
        "figures": {name: asdict(one) for name, one in found.items()},
        "before": arguments.commit,
        "pairs": arguments.pairs,
        "environment": environment(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{'figure':32} {'before':>9} {'now':>9}  now ÷ before (95% interval)")
    for name, one in found.items():
        interval = f"{one.ratio:.3f} ({one.low:.3f} … {one.high:.3f})"
        print(f"{name:32} {one.before:9.4g} {one.now:9.4g}  {interval}")


def _compared(tree: Path, serve: Serve, measure: Measure, pairs: int) -> dict[str, Ratio]:
    """Measure both trees in turns. The first measurement of each warms it up and is dropped."""
    rows: dict[str, list[Measured]] = {"before": [], "now": []}
    with serve(tree) as before, serve(ROOT) as now:
        servers = {"before": before, "now": now}
        for number in range(pairs + 1):
            order = ("before", "now") if number % 2 else ("now", "before")
            for name in order:
                row = measure(servers[name], number)
                rows[name].append(row)
                shown = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
                print(f"{number} {name:6}  {shown}", file=sys.stderr, flush=True)
    return ratios(rows["before"][1:], rows["now"][1:])


def _streaming(server: Running, number: int) -> Measured:
    """One session of 60 s; louder or softer each time, or its windows would be cached."""
    seconds = _SESSION_SECONDS if number else _WARM_SECONDS
    samples = speech(seconds) * (0.9 - 0.05 * random.Random(number).random() * number)
    before = server.cpu_seconds()
    fed = asyncio.run(feed(server.url, samples, _SEGMENT_SECONDS))
    return {
        "streaming_cpu_seconds": server.cpu_seconds() - before,
        "streaming_chunk_seconds": statistics.median(c.seconds for c in fed.chunks),
    }


def _control(server: Running, number: int, load: Load) -> Measured:
    """As `_load`, of the frontend and the processor alone; few sessions end within the time."""
    before = server.cpu_seconds()
    target = protocols.Target(server.url, "demo", round(Slo().chunk_seconds * 1000))
    planner = Planner(SpeechStyle(_LENGTHS), number)
    trial = asyncio.run(run_trial(load, planner, protocols.protocol("stream"), target))
    if trial.lateness:
        print(f"{number}: {trial.lateness}", file=sys.stderr, flush=True)
    return {"control_cost": (server.cpu_seconds() - before) / trial.open_seconds}


def _load(server: Running, number: int, load: Load) -> Measured:
    """Live sessions in real time, once more where the generator was late.

    Raises RuntimeError if it was late each of three times.
    """
    for _ in range(_TRIES):
        planner = Planner(SpeechStyle(_LENGTHS), number)
        target = protocols.Target(server.url, "demo", round(Slo().chunk_seconds * 1000))
        before = server.cpu_seconds()
        trial = asyncio.run(run_trial(load, planner, protocols.protocol("stream"), target))
        if trial.valid:
            break
        print(f"{number} again: {trial.invalid}", file=sys.stderr, flush=True)
    else:
        raise RuntimeError(f"invalid: {trial.invalid}")
    cpu = (server.cpu_seconds() - before) / trial.open_seconds
    done = [r for r in trial.records if r.outcome == "done"]
    chunks = [1000 * seconds for r in done for seconds in partial_latencies(r)]
    measured = {
        "cpu_per_session_second": cpu,
        "chunk_p50_ms": percentile(chunks, 0.5),
        "chunk_p95_ms": percentile(chunks, 0.95),
    } | {name: value for name, value in trial.figures().items() if name in _FIGURES}
    return {f"load_{name}": value for name, value in measured.items()}


if __name__ == "__main__":
    main()
