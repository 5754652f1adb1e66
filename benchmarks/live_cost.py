"""The cost of live sessions with a configuration, at a published model's true size.

    python -m benchmarks.live_cost --config configs/cpu-0.6b.yaml --out build/live-cost.json
                                   [--model 0.6b-steady] [--sessions 1 2] [--seconds 30]
                                   [--dtype float32] [--chunk-ms 2000] [--smoke]

The graph runs with that configuration and a checkpoint of random weights, which is written at the
first use (`benchmarks.checkpoints`). `--sessions` speak concurrently in real time. The text is
meaningless, but has the length of fast English speech (3.5 tokens per second), and continues as it
began, so that drafts are accepted as with trained weights. Answers never end by themselves, so the
loop guard, which drops such answers, is off.

First comes a session that sends each chunk once the previous one has its text, with all audio
decoded: its CPU (seconds of each process per second of audio) does not depend on other load of the
machine. Live sessions follow, whose latencies do depend on it. Memory is the proportional set size.
Steps of a chunk are medians from traces.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import psutil

from auricle.config.settings import FrontendSettings
from auricle.launcher.config import load_config, settings_for
from auricle_testing.feed import feed
from auricle_testing.server import Server, serving
from benchmarks.checkpoints import TOKENS_PER_SECOND
from benchmarks.harness import Benchmark, Run, main
from benchmarks.load.metrics import partial_lags, partial_latencies, stop_to_final
from benchmarks.load.plan import Planner, SessionPlan, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.record import Record, Refused
from benchmarks.load.spans import CHUNK_STEPS, Span, collecting, waterfall
from benchmarks.load.usage import measured
from benchmarks.prepared import checkpoint
from benchmarks.statistics import percentile

_WARM_UP_SECONDS = 8.0
_PACKET_SECONDS = 0.1
_COUNTED = ("decodes", "prefilled_tokens", "output_tokens", "decode_steps")


def options(model: Path, dtype: str | None) -> list[str]:
    """Return the overrides: the model, and the length of its answers."""
    return [
        f"--Common.model={model.resolve()}",
        *([f"--Common.dtype={dtype}"] if dtype else []),
        f"--Processor.max_tokens_per_second={TOKENS_PER_SECOND}",
        "--Processor.min_new_tokens=1",
        "--Processor.loop_guard=false",
    ]


async def sessions(url: str, chunk_ms: int, plans: Sequence[SessionPlan]) -> list[Record]:
    """Run a session for each plan at once. Raises Failed if one fails."""
    run, target = protocol("stream"), Target(url, "random", chunk_ms)

    async def one(plan: SessionPlan) -> Record:
        record = Record(plan, _PACKET_SECONDS, time.monotonic())
        try:
            await run(target, record)
            record.outcome = "done"
        except Refused as error:
            record.outcome, record.reason = "refused", str(error)
        record.ended = time.monotonic()
        return record

    return await asyncio.gather(*(one(plan) for plan in plans))


def counted(server: Server) -> dict[str, float]:
    """Return the PD worker's counters of decodes and their tokens."""
    names = [f"auricle_pd_worker_{name}_total" for name in _COUNTED]
    return dict(zip(_COUNTED, server.metrics("PdWorker", *names), strict=True))


@contextlib.contextmanager
def observed(server: Server, found: dict[str, float], audio: float) -> Iterator[None]:
    """Add CPU, memory and counters of the block, in which `audio` seconds are sent, to `found`."""
    before = counted(server)
    with measured(psutil.Process(server.process.pid)) as usage:
        yield
    decoded = {name: value - before[name] for name, value in counted(server).items()}
    found |= {
        "audio": audio,
        "cpu": usage.total_cpu_seconds / audio,
        "mib": usage.peak_mib,
        "decodes": decoded["decodes"],
        **{f"{n}_per_decode": decoded[n] / max(decoded["decodes"], 1) for n in _COUNTED[1:]},
        **{f"cpu_{_plain(name)}": s / audio for name, s in usage.cpu_seconds.items()},
    }
    for name in usage.samples[-1][1]:
        found[f"mib_{_plain(name)}"] = max(float(mib[name]) for _, mib in usage.samples)


def latencies(records: Sequence[Record], spans: Sequence[Span]) -> dict[str, float]:
    """Return the latencies of live sessions in seconds, and a chunk's steps."""
    done = [record for record in records if record.outcome == "done"]
    behind = [s for record in done for s in partial_latencies(record)]
    lags = [s for record in done for s in partial_lags(record)]
    found = {
        "refused": float(len(records) - len(done)),
        "partials": float(len(behind)),
        "latency_median": statistics.median(behind) if behind else math.nan,
        "latency_p95": percentile(behind, 0.95),
        "lag_p95": percentile(lags, 0.95),
        "stop_to_final": max((stop_to_final(record) for record in done), default=math.nan),
    }
    steps = waterfall(spans, behind) if behind else {}
    return found | {f"step_{name}": steps[name] for name in CHUNK_STEPS if name in steps}


def _plain(name: str) -> str:
    return name.replace(" ", "_").lower()


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Start the graph, warm it up, and return figures: `one by one`, and by sessions at a time."""
    model, config = checkpoint(arguments.model), arguments.config
    frontend: FrontendSettings = settings_for("Frontend", load_config(config), str(config))
    chunk_ms = arguments.chunk_ms or frontend.default_chunk_ms
    longest = frontend.max_segment_seconds
    found: dict[str, dict[str, float]] = {}
    with (
        collecting() as (endpoint, spans),
        serving(
            *options(model, arguments.dtype),
            f"--Common.otlp_endpoint={endpoint}",
            config=str(config),
        ) as server,
    ):

        def one_by_one(plan: SessionPlan) -> list[float]:
            samples = plan.pcm.astype(np.float32) / 2**15
            fed = asyncio.run(feed(server.url, samples, longest, chunk_ms=chunk_ms))
            return [chunk.seconds for chunk in fed.chunks]

        one_by_one(_planner(_WARM_UP_SECONDS, 0).next())
        alone = found["one by one"] = {"ready": server.seconds_to_ready}
        plan = _planner(arguments.seconds, 3).next()
        with observed(server, alone, plan.seconds):
            chunks = one_by_one(plan)
        alone |= {"chunk_median": statistics.median(chunks), "chunk_p95": percentile(chunks, 0.95)}
        _show("one by one", alone)
        for count in arguments.sessions:
            planner = _planner(arguments.seconds, count)
            plans = [planner.next() for _ in range(count)]
            live = found[f"{count} live"] = {}
            spans.clear()
            with observed(server, live, sum(plan.seconds for plan in plans)):
                records = asyncio.run(sessions(server.url, chunk_ms, plans))
            live |= latencies(records, spans)
            _show(f"{count} live", live)
    return found


def _planner(seconds: float, seed: int) -> Planner:
    return Planner(SpeechStyle((seconds, seconds), (0.1, 0.4)), seed)


def _show(title: str, found: Mapping[str, float]) -> None:
    print(title, flush=True)
    for name, value in found.items():
        print(f"  {name:28} {value:.4g}", flush=True)


def _live_cost(run: Run) -> None:
    if run.size == "smoke":
        run.arguments.model, run.arguments.seconds, run.arguments.sessions = "tiny", 12.0, [1]
    run.extra["sessions"] = measure(run.arguments)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path("configs/cpu-0.6b.yaml"))
    parser.add_argument("--model", default="0.6b-steady", help="of benchmarks.checkpoints")
    parser.add_argument("--dtype", help="instead of the configuration's")
    parser.add_argument("--chunk-ms", type=int, help="instead of the configuration's")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 2], help="at a time")
    parser.add_argument("--seconds", type=float, default=30.0)


BENCHMARK = Benchmark(
    description=__doc__, parts={"live_cost": _live_cost}, arguments=_arguments, sizes=("smoke",)
)

if __name__ == "__main__":
    main(BENCHMARK)
