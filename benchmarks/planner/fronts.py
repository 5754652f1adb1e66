"""SLO against GPU-hours: the planner over its setting `slo`, the HPA over its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.planner.cluster import Score
from benchmarks.planner.figures import SLO, ours
from benchmarks.planner.kept import OURS, RIVALS, kept
from benchmarks.planner.rivals import hpa_scores
from benchmarks.planner.traces import Trace

TARGETS = (0.95, 0.98, SLO, 0.995, 0.999)


@dataclass(frozen=True)
class Front:
    """One trace under the planner at every target, and under every HPA of the grid."""

    name: str
    gpus: float
    ours: tuple[Score, ...]
    hpa: tuple[Score, ...]

    @property
    def chosen(self) -> Score:
        """The planner's score with the default target."""
        return self.ours[TARGETS.index(SLO)]

    @property
    def slo_gained(self) -> float:
        """The smallest lead in SLO over the best HPA of no more GPU-hours, of all targets."""
        leads = [
            own.slo - max((h.slo for h in self.hpa if h.gpu_hours <= own.gpu_hours), default=0.0)
            for own in self.ours
        ]
        return min(leads)

    @property
    def hours_ratio(self) -> float | None:
        """GPU-hours ÷ the cheapest HPA's that holds as much; None if none does."""
        good = [h.gpu_hours for h in self.hpa if h.slo >= self.chosen.slo]
        return self.chosen.gpu_hours / min(good) if good else None

    @property
    def holds(self) -> bool:
        """Whether the planner holds the SLO, or no HPA does."""
        return self.chosen.slo >= SLO or all(h.slo < SLO for h in self.hpa)


def front(trace: Trace, gpus: float, name: str = "", folder: Path | None = None) -> Front:
    """Sweep both on one trace. The HPA is tuned on the very trace it is scored on.

    Earlier scores are read from `folder`, where they are stored by `name`.
    """
    hpa = kept(folder, f"{name}-hpa", RIVALS, lambda: hpa_scores(trace))
    own = [
        kept(folder, f"{name}-{target:g}", OURS, partial(_own, trace, gpus, target))
        for target in TARGETS
    ]
    return Front(trace.name, gpus, tuple(score for (score,) in own), hpa)


def _own(trace: Trace, gpus: float, target: float) -> tuple[Score]:
    return (ours(trace, gpus, slo=target).score,)


def figures(fronts: Sequence[Front]) -> dict[str, float]:
    """Return the figures over all families and sizes."""
    ratios = [ratio for f in fronts if (ratio := f.hours_ratio) is not None]
    found = {
        "front_slo_gained": min(f.slo_gained for f in fronts),
        "front_slo_held_share": sum(f.holds for f in fronts) / len(fronts),
        "front_slo_worst": min(f.chosen.slo for f in fronts),
        "front_worst_minutes": min(f.chosen.worst_minutes for f in fronts),
    }
    return found | ({"front_hours_ratio": max(ratios)} if ratios else {})


def row(found: Front) -> dict[str, Any]:
    """Return one front as it is stored in the result file."""
    best = [h.gpu_hours for h in found.hpa if h.slo >= found.chosen.slo]
    return {
        "trace": found.name,
        "gpus": found.gpus,
        "slo": found.chosen.slo,
        "gpu_hours": found.chosen.gpu_hours,
        "hpa_hours": min(best) if best else None,
        "hpa_slo": max(h.slo for h in found.hpa),
        "ours": [(t, r.slo, r.gpu_hours) for t, r in zip(TARGETS, found.ours, strict=True)],
        "hpa": [(h.slo, h.gpu_hours) for h in found.hpa],
        "worst_minutes": found.chosen.worst_minutes,
        "hours_ratio": found.hours_ratio,
        "slo_gained": found.slo_gained,
        "holds": found.holds,
    }
