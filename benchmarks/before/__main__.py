"""This tree compared with an earlier commit: cost of a session, and latency of its text.

    python -m benchmarks.before COMMIT --out FILE [--only streaming | load | control] [--pairs N]
                                [--sessions N] [--seconds S] [--packages FOLDER]

Both servers run at the same time and get the same audio in turns, in alternating order, so that a
machine that becomes slower affects both. Both use this environment's packages, and the earlier
commit also the packages in FOLDER, such as its own entry point for vLLM. `streaming` feeds one
session of 60 s, chunk after chunk, to the `60m` checkpoint; `load` keeps `--sessions` live
sessions open for `--seconds` on models/demo. `control` does so with packets of 20 ms between
frontend, processor and simulated workers, and counts the CPU of the first two; it runs only with
`--only`. Below 1, this tree is better.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from auricle_testing.feed import feed
from benchmarks.before.trees import Running, Tree, control_plane_of, serving_tree, work_tree
from benchmarks.harness import Benchmark, Run, UsageError, main, note
from benchmarks.load import protocols
from benchmarks.load.metrics import Slo, partial_latencies
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.prepared import ROOT, checkpoint
from benchmarks.statistics import in_turns, percentile, ratios
from benchmarks.streaming.cost import speech

_SEGMENT_SECONDS, _SESSION_SECONDS, _WARM_SECONDS = 30.0, 60.0, 8.0
_LENGTHS = (5.0, 20.0)
_TRIES = 3
_FIGURES = ("stop_to_final_p50_ms", "stop_to_final_p95_ms")
Measured = dict[str, float]
Measure = Callable[[Running, int], Measured]
Serve = Callable[[Tree], contextlib.AbstractContextManager[Running]]


def _compared(run: Run, serve: Serve, measure: Measure) -> None:
    """Measure both trees in turns. The first measurement of each is a warm-up, and dropped."""
    rows: dict[str, list[Measured]] = {"before": [], "now": []}
    with serve(run.arguments.tree) as before, serve(Tree(ROOT)) as now:
        servers = {"before": before, "now": now}
        for number in range(run.arguments.pairs + 1):
            for name in in_turns(("before", "now"), number):
                row = measure(servers[name], number)
                rows[name].append(row)
                shown = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
                note(f"{number} {name:6}  {shown}")
    print(f"{'figure':32} {'before':>9} {'now':>9}  now ÷ before (95% interval)")
    for name, one in ratios(rows["before"][1:], rows["now"][1:]).items():
        run.extra.setdefault("ratios", {})[name] = asdict(one)
        run.figures |= one.named(name)
        interval = f"{one.ratio:.3f} ({one.low:.3f} … {one.high:.3f})"
        print(f"{name:32} {one.before:9.4g} {one.now:9.4g}  {interval}")


def _streaming(server: Running, number: int) -> Measured:
    """Measure one session of 60 s; its level changes each time, or its windows would be cached."""
    seconds = _SESSION_SECONDS if number else _WARM_SECONDS
    samples = speech(seconds) * (0.9 - 0.05 * random.Random(number).random() * number)
    before = server.cpu_seconds()
    fed = asyncio.run(feed(server.url, samples, _SEGMENT_SECONDS))
    return {
        "streaming_cpu_seconds": server.cpu_seconds() - before,
        "streaming_chunk_seconds": statistics.median(c.seconds for c in fed.chunks),
    }


def _trial(server: Running, number: int, load: Load) -> tuple[Trial, float]:
    """Run live sessions in real time; return the trial, and its CPU seconds."""
    before = server.cpu_seconds()
    target = protocols.Target(server.url, "demo", round(Slo().chunk_seconds * 1000))
    planner = Planner(SpeechStyle(_LENGTHS), number)
    trial = asyncio.run(run_trial(load, planner, protocols.protocol("stream"), target))
    return trial, server.cpu_seconds() - before


def _control(server: Running, number: int, load: Load) -> Measured:
    """Measure frontend and processor alone; few sessions end within the time."""
    trial, cpu = _trial(server, number, load)
    if trial.lateness:
        note(f"{number}: {trial.lateness}")
    return {"control_cost": cpu / trial.open_seconds}


def _load(server: Running, number: int, load: Load) -> Measured:
    """Measure live sessions in real time; repeat when the generator was late.

    Raises RuntimeError if it was late three times.
    """
    for _ in range(_TRIES):
        trial, cpu = _trial(server, number, load)
        if trial.valid:
            break
        note(f"{number} again: {trial.invalid}")
    else:
        raise RuntimeError(f"invalid: {trial.invalid}")
    done = [r for r in trial.records if r.outcome == "done"]
    chunks = [1000 * seconds for r in done for seconds in partial_latencies(r)]
    measured = {
        "cpu_per_session_second": cpu / trial.open_seconds,
        "chunk_p50_ms": percentile(chunks, 0.5),
        "chunk_p95_ms": percentile(chunks, 0.95),
    } | {name: value for name, value in trial.figures().items() if name in _FIGURES}
    return {f"load_{name}": value for name, value in measured.items()}


def _of_streaming(run: Run) -> None:
    large = checkpoint("60m")
    _compared(run, lambda tree: serving_tree(tree, large), _streaming)


def _of_load(run: Run) -> None:
    load = Load(run.arguments.sessions, run.arguments.seconds)
    _compared(run, serving_tree, lambda server, number: _load(server, number, load))


def _of_control(run: Run) -> None:
    load = Load(run.arguments.sessions, run.arguments.seconds, packet_ms=20)
    _compared(run, control_plane_of, lambda server, number: _control(server, number, load))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("commit")
    parser.add_argument("--packages", type=Path, help="a folder of packages for that commit")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)


@contextlib.contextmanager
def _with_tree(run: Run) -> Iterator[None]:
    if run.arguments.pairs < 1:
        raise UsageError("--pairs must be at least 1")
    run.extra |= {"before": run.arguments.commit, "pairs": run.arguments.pairs}
    with work_tree(run.arguments.commit, run.arguments.packages) as run.arguments.tree:
        yield


BENCHMARK = Benchmark(
    description=__doc__,
    parts={"streaming": _of_streaming, "load": _of_load, "control": _of_control},
    arguments=_arguments,
    around=_with_tree,
    sizes=(),
    on_request=frozenset({"control"}),
)

if __name__ == "__main__":
    main(BENCHMARK)
