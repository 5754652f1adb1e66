"""What live sessions cost with a configuration, at a published model's true size.

    python -m benchmarks.live_cost --config configs/cpu-0.6b.yaml --out build/live-cost.json
                                   [--model 0.6b-steady] [--sessions 1 2] [--seconds 30]
                                   [--dtype float32] [--chunk-ms 2000] [--smoke]

The graph is started with that configuration and a checkpoint of random weights, which is written
at the first use (`benchmarks.checkpoints`). Sessions, so many at a time, speak in real time. The
text is nonsense, but of the length of fast English speech (3.5 tokens per second), and continues as
it began, so that drafts are accepted as with trained weights. Answers never end by themselves, so
the loop guard, which drops such answers, is off.

Memory is the proportional set size, CPU the seconds of each process per second of audio. Steps of
a chunk are medians from traces.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from auricle.launcher.config import load_config, settings_for
from auricle.settings import FrontendSettings, ProcessorSettings
from benchmarks.checkpoints import TOKENS_PER_SECOND
from benchmarks.load.metrics import partial_lags, partial_latencies, percentile, stop_to_final
from benchmarks.load.plan import Planner, SessionPlan, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.record import Record, Refused
from benchmarks.load.spans import CHUNK_STEPS, Span, collecting, waterfall
from benchmarks.load.usage import Usage, measured
from benchmarks.prepared import checkpoint
from benchmarks.streaming.environment import environment
from tests.server import Server, serving

_WARM_UP_SECONDS = 8.0
_PACKET_SECONDS = 0.1
_COUNTED = ("decodes", "prefilled_tokens", "output_tokens", "decode_steps")


def options(config: Path, model: Path, dtype: str | None) -> list[str]:
    """Return the overrides: the model, the length of its answers, and admission as configured."""
    processor: ProcessorSettings = settings_for("Processor", load_config(config), str(config))
    return [
        f"--Common.model={model.resolve()}",
        *([f"--Common.dtype={dtype}"] if dtype else []),
        f"--Processor.target_chunk_ms={processor.target_chunk_ms}",
        f"--Processor.admission={processor.admission}",
        f"--Processor.max_tokens_per_second={TOKENS_PER_SECOND}",
        "--Processor.min_new_tokens=1",
        "--Processor.loop_guard=false",
    ]


async def sessions(url: str, chunk_ms: int, plans: Sequence[SessionPlan]) -> list[Record]:
    """Speak all plans at a time. Raises Failed as a session does."""
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


def figures(
    records: Sequence[Record], usage: Usage, decoded: Mapping[str, float], spans: Sequence[Span]
) -> dict[str, float]:
    """Return the figures: seconds unless named, `cpu_…` per second of audio, `mib_…`."""
    offered, records = len(records), [r for r in records if r.outcome == "done"]
    audio = sum(record.plan.seconds for record in records)
    latencies = [s for record in records for s in partial_latencies(record)]
    lags = [s for record in records for s in partial_lags(record)]
    decodes = decoded["decodes"]
    found = {
        "refused": float(offered - len(records)),
        "audio": audio,
        "chunk": max(record.chunk_seconds or 0.0 for record in records),
        "partials": float(len(latencies)),
        "latency_median": statistics.median(latencies) if latencies else float("nan"),
        "latency_p95": percentile(latencies, 0.95),
        "lag_p95": percentile(lags, 0.95),
        "stop_to_final": max(stop_to_final(record) for record in records),
        "cpu_total": usage.total_cpu_seconds / audio,
        "mib_total": usage.peak_mib,
        "decodes": decodes,
        **{f"{name}_per_decode": decoded[name] / decodes for name in _COUNTED[1:]},
    }
    for name, seconds in usage.cpu_seconds.items():
        found[f"cpu_{_plain(name)}"] = seconds / audio
    for name in usage.samples[-1][1]:
        found[f"mib_{_plain(name)}"] = max(float(mib[name]) for _, mib in usage.samples)
    steps = waterfall(spans, latencies) if latencies else {}
    return found | {f"step_{name}": steps[name] for name in CHUNK_STEPS if name in steps}


def _plain(name: str) -> str:
    return name.replace(" ", "_").lower()


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Start the graph, warm it up, and return the figures by the number of sessions at a time."""
    model = checkpoint(arguments.model)
    loaded = load_config(arguments.config)
    frontend: FrontendSettings = settings_for("Frontend", loaded, str(arguments.config))
    chunk_ms = arguments.chunk_ms or frontend.default_chunk_ms
    overrides = options(arguments.config, model, arguments.dtype)
    found: dict[str, dict[str, float]] = {}
    with (
        collecting() as (endpoint, spans),
        serving(
            *overrides, f"--Common.otlp_endpoint={endpoint}", config=str(arguments.config)
        ) as server,
    ):
        asyncio.run(sessions(server.url, chunk_ms, [_planner(_WARM_UP_SECONDS, 0).next()]))
        for count in arguments.sessions:
            planner = _planner(arguments.seconds, count)
            plans = [planner.next() for _ in range(count)]
            before = counted(server)
            spans.clear()
            with measured(psutil.Process(server.process.pid)) as usage:
                records = asyncio.run(sessions(server.url, chunk_ms, plans))
            decoded = {name: value - before[name] for name, value in counted(server).items()}
            found[str(count)] = {
                "ready": server.seconds_to_ready,
                **figures(records, usage, decoded, spans),
            }
            _print(count, found[str(count)])
    return found


def _planner(seconds: float, seed: int) -> Planner:
    return Planner(SpeechStyle((seconds, seconds), (0.1, 0.4)), seed)


def _print(count: int, found: Mapping[str, float]) -> None:
    print(f"{count} at a time", flush=True)
    for name, value in found.items():
        print(f"  {name:28} {value:.4g}", flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=Path("configs/cpu-0.6b.yaml"))
    parser.add_argument("--model", default="0.6b-steady", help="of benchmarks.checkpoints")
    parser.add_argument("--dtype", help="instead of the configuration's")
    parser.add_argument("--chunk-ms", type=int, help="instead of the configuration's")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 2], help="at a time")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true", help="a tiny model, 12 s of one session")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.model, arguments.seconds, arguments.sessions = "tiny", 12.0, [1]
    found = measure(arguments)
    result = {"figures": found, "environment": environment()}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
