"""Measures the graph on GPUs: its capacity within the SLO, and latencies at half of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.checkpoints import TOKENS_PER_SECOND
from benchmarks.gpu.placement import Placement
from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.subjects import Running, Subject
from benchmarks.load.trial import Load, run_trial
from tests.server import serving

LIVE = Condition(640, (5.0, 60.0), seconds=60.0)
_FIRST_PER_GPU = 48
_MOST = 4096
_OURS = Subject("ours", "0.6b")


def missing() -> str | None:
    """Why the graph cannot run here, if it cannot."""
    try:
        version("vllm")
    except PackageNotFoundError:
        return "vLLM for GPUs is not installed; `make setup-dev TARGET=gpu` installs it"
    return None


@contextmanager
def graph(model: Path, placement: Placement) -> Iterator[Running]:
    """Start the graph; the length of texts is fixed, as random weights do not end them."""
    gpus = len({*placement.encode, *placement.pd})
    overrides = [
        f"--Common.model={model}",
        f"--Processor.max_tokens_per_second={TOKENS_PER_SECOND}",
        "--Processor.min_new_tokens=1",
        f"--Processor.max_sessions={_MOST}",
        "--Processor.admission=fixed",
        f"--Frontend.max_sessions={_MOST}",
        *placement.overrides(),
    ]
    config = "configs/h100-0.6b.yaml" if gpus == 1 else "configs/h100x8-0.6b.yaml"
    with serving(*overrides, config=config) as server:
        yield Running(server.url, model.name, psutil.Process(server.process.pid))


def measure(
    model: Path, placement: Placement, told: Callable[[str], None]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return figures and details."""
    gpus = len({*placement.encode, *placement.pd})
    with graph(model, placement) as server:
        search = CapacitySearch(_OURS, server, LIVE, repeats=1, told=told)
        found = search.run(_FIRST_PER_GPU * gpus, most=_MOST, resolution=0.1)
        half = Load(max(1, found.capacity // 2), 90.0, slo=LIVE.slo)
        planner = Planner(SpeechStyle(LIVE.lengths), seed=2)
        target = server.target(LIVE.chunk_ms)
        trial = asyncio.run(run_trial(half, planner, _OURS.session, target))
    figures = {
        "gpu_capacity_sessions": float(found.capacity),
        "gpu_sessions_per_gpu": found.capacity / gpus,
    }
    if trial.invalid:
        told(f"gpu_stop_to_final_p95_half_ms is invalid: {trial.invalid}")
    else:
        figures["gpu_stop_to_final_p95_half_ms"] = trial.figures()["stop_to_final_p95_ms"]
    curve = {"condition": str(LIVE), "points": found.plain()}
    return figures, {"curve_ours_gpu": curve, "half": trial.figures()}
