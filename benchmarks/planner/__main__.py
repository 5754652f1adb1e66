"""The planner on simulated days, and on the local graph.

    python -m benchmarks.planner --out FILE [--quick | --smoke] [--only PART] [--seed N]
    python -m benchmarks.planner --trace CSV [--gpus 2 16 128]

Parts: the simulation takes two minutes (`--quick`) to four, the fronts (bursty days, every target
of the planner against every setting of the HPA) four to fifteen. Then two on the local graph under
paced speech: from idle to 10 and to 16 sessions and back, with the default settings (`idle`, ten
minutes), and a real burst with the planner on and off (`local`, eight minutes). `--smoke` runs
all in five minutes, one size and short loads, whose figures say nothing. Figures already
in FILE are kept, and so are scores that were played (in `played` beside it) until the sources
that they came from change: a run that was interrupted goes on. `--trace` plays a file with two
columns, a time (seconds or ISO 8601) and `sessions` or `arrivals`, at each size, and prints how
both fared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks.planner import from_idle as idle
from benchmarks.planner import fronts
from benchmarks.planner.bursts import BURSTS, any_trace
from benchmarks.planner.cluster import Score
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
from benchmarks.planner.kept import OURS, kept
from benchmarks.planner.local import FULL, SMOKE, Found, burst
from benchmarks.planner.plots import draw, draw_fronts
from benchmarks.planner.replay import TraceError, read_trace
from benchmarks.planner.traces import SHAPES, Trace
from benchmarks.streaming.environment import environment

_SCALES, _QUICK_SCALES, _SMOKE_SCALES = (2, 16, 128, 1000), (2, 16, 128), (32,)
# A trace's seed is its size and this. At 0 the planner's parameters were chosen.
_SEED = 7000
_WRONG = (0.8, 1.2)
_RATIO_SCALES = (32, 128, 1000)


@dataclass(frozen=True)
class _Case:
    """A trace to play, and the folder of the scores that were played before."""

    name: str
    gpus: float
    seed: int
    folder: Path

    def trace(self) -> Trace:
        return any_trace(self.name, self.gpus, self.seed + round(self.gpus))

    @property
    def key(self) -> str:
        return f"{self.name}-{self.gpus:g}-{self.seed}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path)
    what.add_argument("--trace", type=Path, help="a CSV file to play instead")
    parser.add_argument("--gpus", type=float, nargs="+", help="sizes of the service")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the simulated days")
    short = parser.add_mutually_exclusive_group()
    short.add_argument("--quick", action="store_true", help="fewer sizes of the service")
    short.add_argument("--smoke", action="store_true", help="only whether everything runs")
    parser.add_argument(
        "--only", choices=("simulation", "fronts", "idle", "local"), help="one of the parts"
    )
    arguments = parser.parse_args()
    if arguments.trace is not None:
        try:
            _replay(arguments.trace, arguments.gpus or _QUICK_SCALES)
        except TraceError as error:
            parser.error(str(error))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"figures": {}, "details": {}, "invalid": {}}
    if arguments.out.exists():
        result |= json.loads(arguments.out.read_text())
    played = arguments.out.parent / "played"

    def cases(names: Iterable[str]) -> list[_Case]:
        sizes = arguments.gpus or _scales(arguments)
        return [_Case(name, gpus, arguments.seed, played) for gpus in sizes for name in names]

    parts: dict[str, Callable[[], Found]] = {
        "simulation": lambda: _simulated(cases(SHAPES), arguments.out.parent),
        "fronts": lambda: _fronts(cases(BURSTS), arguments.out.parent),
        "idle": lambda: idle.from_idle(idle.SMOKE if arguments.smoke else idle.FULL),
        "local": lambda: burst(SMOKE if arguments.smoke else FULL),
    }
    for part, measure in parts.items():
        if arguments.only in (None, part):
            found = measure()
            before = {n: v for n, v in result["figures"].items() if n not in found.invalid}
            doubted = {n: w for n, w in result["invalid"].items() if n not in found.figures}
            result["figures"] = before | found.figures
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


def _simulated(cases: Sequence[_Case], plots: Path) -> Found:
    began = time.monotonic()
    wrong_profiles = [(case, real) for case in cases for real in _WRONG]
    with ProcessPoolExecutor() as processes:
        played = list(_shown(processes.map(_played, cases), len(cases), "traces"))
        slos = processes.map(_slo_with_wrong_profile, wrong_profiles)
        wrong = list(_shown(slos, len(wrong_profiles), "wrong profile"))
        mixed = list(_shown(processes.map(_slo_with_wrong_mix, cases), len(cases), "wrong mix"))
    figures = _figures(played)
    figures["slo_with_wrong_mix"] = min(mixed)
    figures["slo_with_wrong_profile"] = min(wrong)
    figures["seconds_simulated"] = time.monotonic() - began
    draw(played, best_hpa(played), plots)
    return Found(figures, {"traces": [_row(p) for p in played], "hpa": best_hpa(played)})


def _played(case: _Case) -> Played:
    return play(case.trace(), case.gpus, case.key, case.folder)


def _slo_with_wrong_profile(what: tuple[_Case, float]) -> float:
    case, real = what
    return _slo(case, f"real-{real:g}", real)


def _slo_with_wrong_mix(case: _Case) -> float:
    return _slo(case, "mix", wrong_mix)


def _slo(case: _Case, how: str, real_capacity: float | Callable[[int], float]) -> float:
    def play_it() -> list[Score]:
        return [ours(case.trace(), case.gpus, real_capacity).score]

    (score,) = kept(case.folder, f"{case.key}-{how}", OURS, play_it)
    return score.slo


def _fronts(cases: Sequence[_Case], plots: Path) -> Found:
    with ProcessPoolExecutor() as processes:
        swept = list(_shown(processes.map(_front, cases), len(cases), "fronts"))
    draw_fronts(swept, plots)
    return Found(fronts.figures(swept), {"fronts": [fronts.row(f) for f in swept]})


def _front(case: _Case) -> fronts.Front:
    return fronts.front(case.trace(), case.gpus, case.key, case.folder)


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
