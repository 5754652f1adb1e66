"""Replicas and SLO against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.planner.cluster import POOLS
from benchmarks.planner.figures import Played
from benchmarks.planner.fronts import Front
from benchmarks.planner.rivals import hpa_runs
from benchmarks.planner.traces import STEP_SECONDS


def draw(played: Sequence[Played], hpa: tuple[float, float], folder: Path) -> None:
    """One PNG for each trace, at the largest size that was played."""
    import matplotlib

    matplotlib.use("Agg")
    for name in dict.fromkeys(p.trace.name for p in played):
        largest = max((p for p in played if p.trace.name == name), key=lambda p: p.gpus)
        _draw_one(largest, hpa, folder / f"planner-{name}.png")


def draw_fronts(fronts: Sequence[Front], folder: Path) -> None:
    """One PNG for each trace: a panel for every size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for name in dict.fromkeys(f.name for f in fronts):
        chosen = [f for f in fronts if f.name == name]
        figure, axes = plt.subplots(1, len(chosen), figsize=(5 * len(chosen), 4), squeeze=False)
        for axis, front in zip(axes[0], chosen, strict=True):
            for runs, style, label in ((front.hpa, "x", "HPA"), (front.ours, "o-", "auricle")):
                axis.plot([r.gpu_hours for r in runs], [r.slo for r in runs], style, label=label)
            axis.set_title(f"{name}, {front.gpus:g} GPUs (simulated)")
            axis.set_xlabel("GPU-hours")
            axis.set_ylabel("sessions inside the SLO")
            axis.legend()
        figure.tight_layout()
        figure.savefig(folder / f"planner-front-{name}.png", dpi=110)
        plt.close(figure)


def _draw_one(played: Played, hpa: tuple[float, float], file: Path) -> None:
    from matplotlib import pyplot as plt

    begin, (rival,) = played.trace.scored_from, hpa_runs(played.trace, [hpa])
    hours = np.arange(len(played.trace.sessions))[begin:] * STEP_SECONDS / 3600
    figure, axes = plt.subplots(3, 1, figsize=(11, 8), sharex=True)
    for axis, pool in zip(axes, POOLS, strict=False):
        axis.plot(hours, played.trace.demand(pool)[begin:], lw=0.5, label="needed")
        axis.plot(hours, rival.replicas[pool][begin:], lw=0.8, label="HPA")
        axis.plot(hours, played.ours.replicas[pool][begin:], lw=1.0, label="auricle")
        axis.set_ylabel(f"{pool} workers")
        axis.legend(loc="upper right")
    for run, label in ((rival, "HPA"), (played.ours, "auricle")):
        axes[2].plot(hours, run.share[begin:], lw=0.8, label=f"{label}: {run.slo:.4f}")
    axes[2].set_ylabel("sessions inside the SLO")
    axes[2].set_xlabel("hours")
    axes[2].legend(loc="lower right")
    figure.suptitle(f"{played.trace.name}, about {played.gpus:g} GPUs at the peak (simulated)")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
