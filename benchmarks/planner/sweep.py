"""The planner against every HPA and the clairvoyant bound: all families of traces, all sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planner.cluster import Score
from benchmarks.planner.figures import SLO, ours
from benchmarks.planner.kept import OURS, RIVALS, kept
from benchmarks.planner.rivals import clairvoyant_hours, hpa_scores
from benchmarks.planner.traces import Trace

_SMALLER, _LARGER = 16, 128


@dataclass(frozen=True)
class Swept:
    """One trace under the planner's defaults, every HPA of the grid, and the bound."""

    name: str
    gpus: float
    ours: Score
    hpa: tuple[Score, ...]
    bound_hours: float

    @property
    def over_bound(self) -> float:
        """GPU-hours ÷ the clairvoyant bound."""
        return self.ours.gpu_hours / self.bound_hours

    @property
    def hpa_hours(self) -> float | None:
        """The GPU-hours of the cheapest HPA that holds the planner's SLO; None if none does."""
        return min((h.gpu_hours for h in self.hpa if h.slo >= self.ours.slo), default=None)

    @property
    def dominated(self) -> bool:
        """Whether an HPA has an SLO no worse, and fewer GPU-hours."""
        return self.hpa_hours is not None and self.hpa_hours < self.ours.gpu_hours


def swept(trace: Trace, gpus: float, name: str, folder: Path | None) -> Swept:
    """Play one trace. Earlier scores are read from `folder`, where they are stored by `name`."""
    (own,) = kept(folder, f"{name}-{SLO:g}", OURS, lambda: [ours(trace, gpus, slo=SLO).score])
    (bound,) = kept(folder, f"{name}-bound", RIVALS, lambda: [_bound(trace)])
    hpa = kept(folder, f"{name}-hpa", RIVALS, lambda: hpa_scores(trace))
    return Swept(trace.name, gpus, own, hpa, bound.gpu_hours)


def _bound(trace: Trace) -> Score:
    return Score(clairvoyant_hours(trace, SLO), SLO, 0.0)


def figures(found: Sequence[Swept]) -> dict[str, float]:
    """Return the figures over all families and sizes."""
    at = {(s.name, s.gpus): s.over_bound for s in found}
    grown = [
        at[name, _LARGER] / at[name, _SMALLER]
        for name in {s.name for s in found}
        if (name, _LARGER) in at and (name, _SMALLER) in at
    ]
    ratios = [s.ours.gpu_hours / s.hpa_hours for s in found if s.hpa_hours is not None]
    shown = {
        "sweep_runs": float(len(found)),
        "sweep_dominated": float(sum(s.dominated for s in found)),
        "sweep_slo_worst": min(s.ours.slo for s in found),
    }
    if ratios:
        shown["sweep_hours_ratio"] = max(ratios)
    if grown:
        shown["sweep_growth"] = max(grown)
    return shown


def row(found: Swept) -> dict[str, Any]:
    """Return one run as it is stored in the result file."""
    return {
        "trace": found.name,
        "gpus": found.gpus,
        "slo": found.ours.slo,
        "gpu_hours": found.ours.gpu_hours,
        "over_bound": found.over_bound,
        "hpa_hours": found.hpa_hours,
        "dominated": found.dominated,
    }
