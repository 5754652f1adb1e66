"""The load suite's JSON as its section of RESULTS.md, plots included.

    python -m benchmarks.load.report build/load.json [--notes benchmarks/load/NOTES.md]

What stands between the section's marks is replaced; reasons and explanations come from
the notes, numbers only from the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "capacity_ours_demo": ("live sessions inside the SLO, 640 ms chunks, models/demo", ""),
    "capacity_ratio_demo": ("the same ÷ the best baseline as published", "≥ 4.5"),
    "capacity_ratio_demo_segmented": ("÷ the best baseline with our segments", "≥ 3"),
    "capacity_ours_3x": ("the same with `3x`: models/demo with three times the arithmetic", ""),
    "capacity_ratio_best": ("the same ÷ the best baseline as published", "≥ 4"),
    "capacity_ratio_best_segmented": ("÷ the best baseline with our segments", "≥ 2"),
    "stop_to_final_p95_half_ms": ("95th percentile at half of capacity, models/demo", "≤ 80"),
    "overload_running_slo_share": ("sessions let in, inside the SLO, twice the capacity", "≥ 0.99"),
    "overload_refused": ("refusals meanwhile: 503, a reason, Retry-After", ""),
    "control_sessions_per_core": ("frontend and processor, 20 ms packets, 50 sessions", "≥ 100"),
    "control_cost_vs_echo": ("CPU per session ÷ a bare echo's, uvicorn + websockets", "≤ 2"),
    "control_cost_vs_picows": ("the same ÷ an echo's in Cython, picows", ""),
    "control_share_half": ("of a chunk's latency neither encoder, transfer nor decoder", "≤ 0.25"),
    "control_share_10x": ("the same of one session with `10x`", ""),
    "pd_engine_requests_per_s": (
        "one PD engine, a decoder of one narrow layer, 400-token prompts, drafts",
        "",
    ),
    "pd_engine_requests_per_core_s": ("the same ÷ the CPU of both of its processes", ""),
    "pd_requests_ratio_before": (
        "pd_engine_requests_per_core_s ÷ that of commit 5557afc, in turns",
        "≥ 2.5",
    ),
    "pd_engine_api_cpu_ms": ("CPU of a request in the process that calls vLLM", ""),
    "pd_engine_core_cpu_ms": ("CPU of a request in vLLM's engine process", ""),
    "embedding_hop_p50_ms": ("READ posted to header verified, 104 × 1024 bfloat16", "≤ 1"),
    "rtfx_ratio_long_demo": (
        "long recordings at a time ÷ stock vLLM at its best, WER no worse, models/demo",
        "≥ 1.5",
    ),
    "rtfx_ratio_long_10x": ("the same with `10x`", "≥ 1.5"),
    "cpu_ratio_long_demo": ("CPU of a second of these: stock vLLM's ÷ ours, models/demo", ""),
    "cpu_ratio_long_10x": ("the same with `10x`", ""),
    "soak_slope_mb_per_min": (
        "the last 30 of 60 minutes at 70% of capacity, all processes' memory",
        "≤ 0.1",
    ),
    "soak_lag_growth": ("95th percentile of lag, last third ÷ first", ""),
}
_POINT = {
    "sessions_offered": "sessions",
    "slo_share": "inside the SLO",
    "partial_lag_p95_ms": "partial lag p95, ms",
    "stop_to_final_p95_ms": "stop to final p95, ms",
    "commit_lag_p95_ms": "commit lag p95, ms",
    "unstable_word_ratio": "unstable words",
    "wer": "WER",
    "cores": "cores",
    "peak_mib": "MiB",
}


def section(result: dict[str, Any], command: str, notes: str) -> Iterator[str]:
    """Return lines of Markdown."""
    details = result["details"]
    rest = ", definitions in [METRICS.md](METRICS.md); the generator shares the cores"
    yield from generated.heading("Load", result["environment"], command, rest)
    yield from generated.figures(FIGURES, result["figures"], result.get("invalid", {}))
    if notes:
        yield notes.strip()
        yield ""
    for model in ("demo", "3x"):
        yield from _curves(details, model)
    yield from _recorded(details)
    yield from _waterfall(details)
    yield from _by_process(details)


def _curves(details: dict[str, Any], model: str) -> Iterator[str]:
    """Of each server: the largest load carried, and the smallest one that was not."""
    rows, condition = [], ""
    for key in sorted(k for k in details if k.startswith("curve_") and k.endswith(model)):
        name = key.removeprefix("curve_").removesuffix(f"_{model}").replace("_", "-")
        condition, points = details[key]["condition"], details[key]["points"]
        carried = [p for p in points if p["carried"]]
        beyond = [p for p in points if not p["carried"]]
        for point in [*carried[-1:], *beyond[:1]]:
            said = "yes" if point["carried"] else "no" if point.get("valid", 1.0) else "invalid"
            values = [point[measure] for measure in _POINT]
            goodput = point["sessions_offered"] * point["slo_share"] / point["cores"]
            rows.append([name, said, *map(number, values), number(goodput)])
    if rows:
        yield f"Side by side, {'models/demo' if model == 'demo' else f'`{model}`'}: {condition}."
        yield ""
        names = ["server", "carried", *_POINT.values(), "sessions inside per core used"]
        yield from table(names, rows)
        yield f"![latency against sessions](plots/load-{model}.png)"
        yield ""


_RECORDED = {
    "concurrency": "requests at a time",
    "files": "files",
    "rtfx": "RTFx",
    "cpu_ms": "CPU, ms per second",
    "wer": "WER",
}


def _recorded(details: dict[str, Any]) -> Iterator[str]:
    rows = []
    for key in sorted(k for k in details if k.startswith("recorded_")):
        _, model, name = key.split("_", 2)
        rows += [[name, model, *(number(row[k]) for k in _RECORDED)] for row in details[key]]
    if rows:
        yield "Recorded files:"
        yield ""
        yield from table(["server", "model", *_RECORDED.values()], rows)


def _waterfall(details: dict[str, Any]) -> Iterator[str]:
    for key, what in (
        ("waterfall_ms", "at half of capacity"),
        ("waterfall_10x_ms", "with `10x`, one session"),
    ):
        if key in details:
            yield f"Where a chunk's time goes {what} (medians, ms, from traces):"
            yield ""
            found = details[key]
            names = [n for n in found if n not in ("chunk", "control")]
            row = [number(found[n]) for n in names]
            yield from table([n.replace("_", " ") for n in names], [row])
    if "waterfall_ms" in details:
        yield "![a chunk's waterfall](plots/load-waterfall.png)"
        yield ""


def _by_process(details: dict[str, Any]) -> Iterator[str]:
    prefix = "cpu_per_audio_second_"
    rows = [
        [key.removeprefix(prefix), number(1000 * value)]
        for key, value in details.get("half", {}).items()
        if key.startswith(prefix)
    ]
    if rows:
        yield "CPU at half of capacity:"
        yield ""
        yield from table(["process", "ms per second of audio"], rows)
    if "profiles" in details:
        yield "Hottest functions there (share of samples that hold the interpreter):"
        yield ""
        hottest = [
            [name, ", ".join(f"`{where}` {share:.0%}" for where, share in list(found.items())[:4])]
            for name, found in details["profiles"].items()
        ]
        yield from table(["process", "own time"], hottest)


def main() -> None:
    """See the module."""
    parser = generated.parser(__doc__, "python -m benchmarks.load --suite --quick --out FILE")
    parser.add_argument("--notes", type=Path, default=Path(__file__).with_name("NOTES.md"))
    arguments = parser.parse_args()
    notes = arguments.notes.read_text() if arguments.notes.exists() else ""
    generated.publish(
        "load", arguments.result, lambda result: section(result, arguments.command, notes)
    )


if __name__ == "__main__":
    main()
