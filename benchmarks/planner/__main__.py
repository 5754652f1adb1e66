"""The planner on simulated days, and on the local graph.

    python -m benchmarks.planner --out FILE [--quick | --smoke] [--only simulation|local]

The simulation takes two minutes (`--quick`) to four. The local part is a real burst, the
local graph under paced speech with the planner on and off (eight minutes). `--smoke` runs
both in two minutes, one size and a short burst, whose figures say nothing. Figures already
in FILE are kept.
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

from benchmarks.planner.figures import (
    SLO,
    Played,
    best_hpa,
    ours,
    play,
    ratio_error,
    reversals,
)
from benchmarks.planner.local import FULL, SMOKE, Found, burst
from benchmarks.planner.plots import draw
from benchmarks.planner.traces import SHAPES, make
from benchmarks.streaming.environment import environment

_SCALES, _QUICK_SCALES, _SMOKE_SCALES = (2, 16, 128, 1000), (2, 16, 128), (32,)
_WRONG = (0.8, 1.2)
_RATIO_SCALES = (32, 128, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    short = parser.add_mutually_exclusive_group()
    short.add_argument("--quick", action="store_true", help="fewer sizes of the service")
    short.add_argument("--smoke", action="store_true", help="only whether everything runs")
    parser.add_argument("--only", choices=("simulation", "local"), help="one of the two parts")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"figures": {}, "details": {}, "invalid": {}}
    if arguments.out.exists():
        result |= json.loads(arguments.out.read_text())
    parts: dict[str, Callable[[], Found]] = {
        "simulation": lambda: _simulated(_scales(arguments), arguments.out.parent),
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


def _shown(items: Iterable[Any], count: int, what: str) -> Iterable[Any]:
    return track(items, total=count, description=what)


def _figures(played: list[Played]) -> dict[str, float]:
    hpa = best_hpa(played)
    large = [p for p in played if p.gpus > 2]

    def static(name: str) -> float:
        return max(p.ours.gpu_hours / p.static_hours for p in large if p.trace.name == name)

    return {
        "gpu_hours_vs_clairvoyant": max(p.ours.gpu_hours / p.bound_hours for p in played),
        "gpu_hours_vs_static_diurnal": static("diurnal"),
        "gpu_hours_vs_static_flash": static("flash"),
        "gpu_hours_vs_hpa": max(p.ours.gpu_hours / p.hpa[hpa].gpu_hours for p in large),
        "slo_worst": min(p.ours.slo for p in played),
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
