"""The planner on simulated days, and on the local graph.

    python -m benchmarks.planner --out FILE [--quick | --smoke] [--only simulation|fronts|local]
    python -m benchmarks.planner --trace CSV [--gpus 2 16 128]

The simulation takes two minutes (`--quick`) to four, the fronts (bursty days, every target of
the planner against every setting of the HPA) four to fifteen. The local part is a real burst, the
local graph under paced speech with the planner on and off (eight minutes). `--smoke` runs
all in three minutes, one size and a short burst, whose figures say nothing. Figures already
in FILE are kept. `--trace` plays a file with two columns, a time (seconds or ISO 8601) and
`sessions` or `arrivals`, at each size, and prints how both fared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks.planner import fronts
from benchmarks.planner.bursts import BURSTS, any_trace
from benchmarks.planner.figures import (
    SLO,
    Played,
    best_hpa,
    ours,
    play,
    ratio_error,
    reversals,
    wrong_mix,
)
from benchmarks.planner.local import FULL, SMOKE, Found, burst
from benchmarks.planner.plots import draw, draw_fronts
from benchmarks.planner.replay import TraceError, read_trace
from benchmarks.planner.traces import SHAPES, make
from benchmarks.streaming.environment import environment

_SCALES, _QUICK_SCALES, _SMOKE_SCALES = (2, 16, 128, 1000), (2, 16, 128), (32,)
_WRONG = (0.8, 1.2)
_RATIO_SCALES = (32, 128, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path)
    what.add_argument("--trace", type=Path, help="a CSV file to play instead")
    parser.add_argument("--gpus", type=float, nargs="+", default=[2, 16, 128])
    short = parser.add_mutually_exclusive_group()
    short.add_argument("--quick", action="store_true", help="fewer sizes of the service")
    short.add_argument("--smoke", action="store_true", help="only whether everything runs")
    parser.add_argument(
        "--only", choices=("simulation", "fronts", "local"), help="one of the parts"
    )
    arguments = parser.parse_args()
    if arguments.trace is not None:
        try:
            _replay(arguments.trace, arguments.gpus)
        except TraceError as error:
            parser.error(str(error))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"figures": {}, "details": {}, "invalid": {}}
    if arguments.out.exists():
        result |= json.loads(arguments.out.read_text())
    parts: dict[str, Callable[[], Found]] = {
        "simulation": lambda: _simulated(_scales(arguments), arguments.out.parent),
        "fronts": lambda: _fronts(_scales(arguments), arguments.out.parent),
        "local": lambda: burst(SMOKE if arguments.smoke else FULL),
    }
    for part, measure in parts.items():
        if arguments.only in (None, part):
            found = measure()
            kept = {n: v for n, v in result["figures"].items() if n not in found.invalid}
            doubted = {n: w for n, w in result["invalid"].items() if n not in found.figures}
            result["figures"] = kept | found.figures
            result["invalid"] = doubted | found.invalid
            result["details"] |= found.details
            result["environment"] = environment()
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in result["figures"].items():
        print(f"{name:32} {value:.4g}")
    for name, why in result["invalid"].items():
        print(f"{name:32} invalid: {why}")
    if arguments.smoke:
        print("smoke: everything ran; the figures say nothing")


def _scales(arguments: argparse.Namespace) -> tuple[int, ...]:
    if arguments.smoke:
        return _SMOKE_SCALES
    return _QUICK_SCALES if arguments.quick else _SCALES


def _simulated(scales: Iterable[int], plots: Path) -> Found:
    began = time.monotonic()
    pairs = _pairs(scales)
    wrong_pairs = [(pair, real) for pair in pairs for real in _WRONG]
    with ProcessPoolExecutor() as processes:
        played = list(_shown(processes.map(_played, pairs), len(pairs), "traces"))
        figures = _figures(played)
        slos = processes.map(_slo_with_wrong_profile, wrong_pairs)
        wrong = list(_shown(slos, len(wrong_pairs), "wrong profile"))
        mixed = list(_shown(processes.map(_slo_with_wrong_mix, pairs), len(pairs), "wrong mix"))
    figures["slo_with_wrong_mix"] = min(mixed)
    figures["slo_with_wrong_profile"] = min(wrong)
    figures["seconds_simulated"] = time.monotonic() - began
    draw(played, best_hpa(played), plots)
    return Found(figures, {"traces": [_row(p) for p in played], "hpa": best_hpa(played)})


def _pairs(scales: Iterable[int]) -> list[tuple[str, int]]:
    return [(name, gpus) for name in SHAPES for gpus in scales]


def _played(pair: tuple[str, int]) -> Played:
    name, gpus = pair
    return play(make(name, gpus, seed=gpus), gpus)


def _slo_with_wrong_profile(what: tuple[tuple[str, int], float]) -> float:
    (name, gpus), real = what
    return ours(make(name, gpus, seed=gpus), gpus, real).slo


def _slo_with_wrong_mix(pair: tuple[str, int]) -> float:
    name, gpus = pair
    return ours(make(name, gpus, seed=gpus), gpus, wrong_mix).slo


def _fronts(scales: Iterable[int], plots: Path) -> Found:
    pairs = [(name, gpus) for name in BURSTS for gpus in scales]
    with ProcessPoolExecutor() as processes:
        swept = list(_shown(processes.map(_front, pairs), len(pairs), "fronts"))
    draw_fronts(swept, plots)
    return Found(fronts.figures(swept), {"fronts": [fronts.row(f) for f in swept]})


def _front(pair: tuple[str, int]) -> fronts.Front:
    name, gpus = pair
    return fronts.front(any_trace(name, gpus, seed=gpus), gpus)


def _replay(file: Path, sizes: Iterable[float]) -> None:
    for gpus in sizes:
        found = fronts.front(read_trace(file, gpus), gpus)
        own, ratio = found.chosen, found.hours_ratio
        print(
            f"{gpus:g} GPUs: SLO {own.slo:.4f}, worst five minutes {own.worst_minutes:.2f}, "
            f"{own.gpu_hours:.1f} GPU-hours; the cheapest HPA as good: "
            + ("none is" if ratio is None else f"{own.gpu_hours / ratio:.1f} GPU-hours")
        )


def _shown(items: Iterable[Any], count: int, what: str) -> Iterable[Any]:
    return track(items, total=count, description=what)


def _figures(played: list[Played]) -> dict[str, float]:
    hpa = best_hpa(played)

    def static(name: str) -> float:
        return max(p.ours.gpu_hours / p.static_hours for p in played if p.trace.name == name)

    return {
        "gpu_hours_vs_clairvoyant": max(p.ours.gpu_hours / p.bound_hours for p in played),
        "gpu_hours_vs_static_diurnal": static("diurnal"),
        "gpu_hours_vs_static_flash": static("flash"),
        "gpu_hours_vs_hpa": max(p.ours.gpu_hours / p.hpa[hpa].gpu_hours for p in played),
        "slo_worst": min(p.ours.slo for p in played),
        "slo_worst_minutes": min(p.ours.worst_minutes for p in played),
        "slo_hpa_worst": min(p.hpa[hpa].slo for p in played),
        "ratio_error_silence": _ratio(played, "silence_heavy"),
        "ratio_error_speech": _ratio(played, "speech_heavy"),
        "reversals": float(sum(reversals(p.ours) for p in played)),
    }


def _ratio(played: list[Played], name: str) -> float:
    chosen = [p for p in played if p.trace.name == name and p.gpus in _RATIO_SCALES]
    return max(error for p in chosen if (error := ratio_error(p)) is not None)


def _row(played: Played) -> dict[str, Any]:
    good = [r.gpu_hours for r in played.hpa.values() if r.slo >= min(SLO, played.ours.slo)]
    return {
        "trace": played.trace.name,
        "gpus": played.gpus,
        "slo": played.ours.slo,
        "gpu_hours": played.ours.gpu_hours,
        "clairvoyant_hours": played.bound_hours,
        "static_hours": played.static_hours,
        "hpa_hours_tuned_on_this_trace": min(good) if good else None,
        "reversals": reversals(played.ours),
    }


if __name__ == "__main__":
    main()
