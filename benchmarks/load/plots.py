"""Plots latency by sessions, and the steps of a chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.load.spans import ORDER


def draw(details: dict[str, Any], directory: Path) -> None:
    """Write PNG files next to the results, for the figures that were measured."""
    for model in ("demo", "3x"):
        curves = {k: v for k, v in details.items() if k.startswith("curve_") and k.endswith(model)}
        if curves:
            _latencies(curves, directory / f"load-{model}.png", model)
    if "waterfall_ms" in details:
        _waterfall(details["waterfall_ms"], directory / "load-waterfall.png")


def _latencies(curves: dict[str, Any], path: Path, model: str) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for axis, measure in zip(axes, ("partial_lag_p95_ms", "stop_to_final_p95_ms"), strict=True):
        for key, curve in sorted(curves.items()):
            points = curve["points"]
            name = key.removeprefix("curve_").removesuffix(f"_{model}").replace("_", "-")
            axis.plot(
                [p["sessions_offered"] for p in points], [p[measure] for p in points],
                marker="o", label=name,
            )  # fmt: skip
        axis.set_xlabel("sessions at a time")
        axis.set_ylabel(measure.replace("_", " "))
        axis.set_yscale("log")
        axis.legend()
    figure.suptitle(f"{model}: {next(iter(curves.values()))['condition']}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _waterfall(found: dict[str, float], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(8, 3.6))
    at = 0.0
    for step in ORDER:
        axis.barh(step.replace("_", " "), found.get(step, 0.0), left=at)
        at += found.get(step, 0.0)
    axis.invert_yaxis()
    axis.set_xlabel("milliseconds, medians")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
