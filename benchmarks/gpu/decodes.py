"""A closed loop of concurrent clients: each sends its next request once it has its answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any, Literal, Protocol

import numpy as np
import psutil

from auricle.workers.pd.engine import Decoded
from benchmarks.gpu.busy import gpu_busy
from benchmarks.gpu.found import Task

Drafts = Literal["none", "right", "wrong"]


class Asked(Protocol):
    """Sessions that take turns on an engine."""

    async def turn(self, client: int, number: int, drafts: Drafts) -> tuple[Decoded, bool]:
        """Decode the next session's prompt for a client; return also whether it is right."""
        ...


async def closed_loop(
    sessions: Asked, clients: int, seconds: float, drafts: Drafts, task: Task
) -> dict[str, Any]:
    """Return the decodes of `clients` concurrent clients in `seconds`."""
    took: list[float] = []
    answers: list[Decoded] = []
    same: list[bool] = []
    numbers = itertools.count()
    began, cpu = time.monotonic(), _cpu_seconds()

    async def client(index: int) -> None:
        while (start := time.monotonic()) < began + seconds:
            decoded, right = await sessions.turn(index, next(numbers), drafts)
            took.append(time.monotonic() - start)
            answers.append(decoded)
            same.append(right)

    with gpu_busy(task.device) as busy:
        await asyncio.gather(*(client(index) for index in range(clients)))
    wall = time.monotonic() - began
    api, core = (now - then for now, then in zip(_cpu_seconds(), cpu, strict=True))
    drafted = sum(a.draft_tokens for a in answers)
    return {
        "drafts": drafts,
        "in_flight": clients,
        "decodes_per_s": len(took) / wall,
        "p50_ms": 1000 * float(np.percentile(took, 50)),
        "p95_ms": 1000 * float(np.percentile(took, 95)),
        "same_share": float(np.mean(same)),
        "steps": float(np.mean([a.steps for a in answers])),
        "accepted_share": sum(a.accepted_tokens for a in answers) / drafted if drafted else None,
        "prompt_tokens": float(np.mean([a.prompt_tokens for a in answers])),
        "cached_tokens": float(np.mean([a.cached_tokens for a in answers])),
        "api_cores": api / wall,
        "engine_cores": core / wall,
        "gpu_busy_share": busy.share,
        "why_not_busy": busy.why_not,
    }


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU seconds of this process, which calls the engine, and of vLLM's."""
    own = psutil.Process()
    api, *core = (sum(p.cpu_times()[:2]) for p in (own, *own.children(recursive=True)))
    return api, sum(core)
