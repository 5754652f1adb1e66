"""SLO against GPU-hours: the planner over its setting `slo`, the HPA over its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.planner.cluster import Run, run
from benchmarks.planner.figures import HPA_GRID, SLO, ours
from benchmarks.planner.rivals import Hpa
from benchmarks.planner.traces import Trace

TARGETS = (0.95, 0.98, SLO, 0.995, 0.999)


@dataclass(frozen=True)
class Front:
    """One trace under the planner at every target, and under every HPA of the grid."""

    name: str
    gpus: float
    ours: tuple[Run, ...]
    hpa: tuple[Run, ...]

    @property
    def chosen(self) -> Run:
        """The planner's run with the default target."""
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


def front(trace: Trace, gpus: float) -> Front:
    """Sweep both on one trace. The HPA is tuned on the very trace it is scored on."""
    return Front(
        trace.name,
        gpus,
        tuple(ours(trace, gpus, slo=target) for target in TARGETS),
        tuple(run(trace, Hpa(*how), step_seconds=20.0) for how in HPA_GRID),
    )


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
    """Return what the result file keeps of one front."""
    return {
        "trace": found.name,
        "gpus": found.gpus,
        "ours": [(t, r.slo, r.gpu_hours) for t, r in zip(TARGETS, found.ours, strict=True)],
        "hpa": [(h.slo, h.gpu_hours) for h in found.hpa],
        "worst_minutes": found.chosen.worst_minutes,
        "hours_ratio": found.hours_ratio,
        "slo_gained": found.slo_gained,
        "holds": found.holds,
    }
