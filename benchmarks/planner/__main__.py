"""The planner on simulated days, and on the local graph.

    python -m benchmarks.planner --out FILE [--quick | --smoke] [--only PART] [--seed N]
    python -m benchmarks.planner --trace CSV [--gpus 2 16 128]

Parts: the simulation takes two minutes (`--quick`) to four, the fronts (bursty days, every target
of the planner against every setting of the HPA) four to fifteen, the sweep (every family of traces
with 2, 16 and 128 GPUs against every HPA and the bound) ten. Two more run on the local graph
under paced speech: from idle to 10 and to 16 sessions and back, with the default settings (`idle`,
ten minutes), and a real burst with the planner on and off (`local`, eight minutes). `--smoke` runs
all in five minutes, one size and short loads, with meaningless figures. Figures in FILE are kept,
and so are simulated scores (in `played` next to it) until their sources change: an interrupted run
resumes. `--trace` plays a file with two columns, a time (seconds or ISO 8601) and `sessions` or
`arrivals`, at each size, and prints the results of the planner and the HPA.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks import harness
from benchmarks.harness import Benchmark, Run, UsageError
from benchmarks.planner import from_idle as idle
from benchmarks.planner import fronts, local, sweep
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
from benchmarks.planner.plots import draw, draw_fronts
from benchmarks.planner.replay import TraceError, read_trace
from benchmarks.planner.traces import SHAPES, Trace

_SCALES = {"full": (2, 16, 128, 1000), "quick": (2, 16, 128), "smoke": (32,)}
_SWEPT = (2, 16, 128)
_SWEPT_SMOKE = ("counts",)
# A trace's seed is its size plus this. The planner's parameters were chosen at 0.
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
    days: int | None = None

    def trace(self) -> Trace:
        return any_trace(self.name, self.gpus, self.seed + round(self.gpus), self.days)

    @property
    def key(self) -> str:
        days = "" if self.days is None else f"-{self.days}-days"
        return f"{self.name}-{self.gpus:g}-{self.seed}{days}"


def _cases(
    run: Run, names: Iterable[str], scales: Sequence[float] = (), days: int | None = None
) -> list[_Case]:
    sizes = run.arguments.gpus or scales or _SCALES[run.size]
    played = run.folder / "played"
    seed = run.arguments.seed
    return [_Case(name, gpus, seed, played, days) for gpus in sizes for name in names]


def _simulated(run: Run) -> None:
    cases = _cases(run, SHAPES)
    wrong_profiles = [(case, real) for case in cases for real in _WRONG]
    with ProcessPoolExecutor() as processes:
        played = list(_shown(processes.map(_played, cases), len(cases), "traces"))
        slos = processes.map(_slo_with_wrong_profile, wrong_profiles)
        wrong = list(_shown(slos, len(wrong_profiles), "wrong profile"))
        mixed = list(_shown(processes.map(_slo_with_wrong_mix, cases), len(cases), "wrong mix"))
    figures = _figures(played)
    figures["slo_with_wrong_mix"] = min(mixed)
    figures["slo_with_wrong_profile"] = min(wrong)
    draw(played, best_hpa(played), run.folder)
    run.publish(figures)
    run.details |= {"traces": [_row(p) for p in played], "hpa": best_hpa(played)}


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


def _fronts(run: Run) -> None:
    cases = _cases(run, BURSTS)
    with ProcessPoolExecutor() as processes:
        swept = list(_shown(processes.map(_front, cases), len(cases), "fronts"))
    draw_fronts(swept, run.folder)
    run.publish(fronts.figures(swept))
    run.details["fronts"] = [fronts.row(f) for f in swept]


def _front(case: _Case) -> fronts.Front:
    return fronts.front(case.trace(), case.gpus, case.key, case.folder)


def _sweep(run: Run) -> None:
    if run.size == "smoke":
        cases = _cases(run, _SWEPT_SMOKE, scales=(2,), days=1)
    else:
        cases = _cases(run, [*SHAPES, *BURSTS], scales=_SWEPT)
    with ProcessPoolExecutor() as processes:
        found = list(_shown(processes.map(_swept, cases), len(cases), "sweep"))
    run.publish(sweep.figures(found))
    run.details["sweep"] = [sweep.row(one) for one in found]


def _swept(case: _Case) -> sweep.Swept:
    return sweep.swept(case.trace(), case.gpus, case.key, case.folder)


def _replay(run: Run) -> None:
    for gpus in run.arguments.gpus or _SCALES["quick"]:
        try:
            found = fronts.front(read_trace(run.arguments.trace, gpus), gpus)
        except TraceError as error:
            raise UsageError(str(error)) from None
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


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=float, nargs="+", help="sizes of the service")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the simulated days")


def _arguments_of_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace", type=Path, required=True, help="a CSV file")
    parser.add_argument("--gpus", type=float, nargs="+", help="sizes of the service")


PLANNER = Benchmark(
    description=__doc__,
    parts={
        "simulation": _simulated,
        "fronts": _fronts,
        "sweep": _sweep,
        "idle": lambda run: idle.from_idle(run, idle.COURSES[run.size]),
        "local": lambda run: local.burst(run, local.BURSTS[run.size]),
    },
    arguments=_arguments,
    keeps=True,
)
TRACE = Benchmark(
    description=__doc__, parts={"trace": _replay}, arguments=_arguments_of_trace, sizes=(), out=None
)


def main() -> None:
    """Measure, or play the file of `--trace`."""
    traced = any(word.startswith("--trace") for word in sys.argv[1:])
    harness.main(TRACE if traced else PLANNER)


if __name__ == "__main__":
    main()
