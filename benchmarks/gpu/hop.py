"""Reads of embeddings over NIXL (`benchmarks.load.hop`), and the cost of copies to host memory."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.found import Found, Task
from benchmarks.load.hop import LAYOUT, LENGTH, content, reads


def host_way(task: Task) -> dict[str, float]:
    """Return the milliseconds that copies through host memory add to a window's read, by step.

    The encode worker copies it from the device and computes its checksum; the PD worker computes
    that again and copies the window to the device.
    """
    device, seconds = Device(task.device), task.scale.seconds / 8
    window = torch.zeros(LENGTH, LAYOUT.width, dtype=torch.bfloat16, device=device.torch)
    pageable = torch.empty(window.shape, dtype=window.dtype)
    pinned = torch.empty(window.shape, dtype=window.dtype, pin_memory=task.on_gpu)
    payload = content(0)
    steps: dict[str, Callable[[], object]] = {
        "from_device": lambda: pinned.copy_(window),
        "checksum": lambda: zlib.crc32(payload.data),
        "checksum_again": lambda: zlib.crc32(payload.data),
        "to_device": lambda: window.copy_(pageable),
    }
    return {name: 1000 * device.median_seconds(step, seconds) for name, step in steps.items()}


def measure(task: Task) -> Found:
    """Measure both kinds of memory; figures are of reads of one window."""
    found = Found()
    for memory in ("dram", "vram"):
        rows, why_not = _reads_or_why_not(memory, task)
        found.details[memory] = rows
        for what in ("p50_ms", "p99_ms"):
            found.put(f"hop_{memory}_{what}", rows[0][what] if rows else None, why_not)
    found.details["host_way_ms"] = way = host_way(task)
    found.put("hop_host_way_ms", sum(way.values()))
    return found


def _reads_or_why_not(memory: str, task: Task) -> tuple[list[dict[str, Any]], str]:
    """Return the rows, or the reason for none: a driver may forbid reads of a GPU's memory."""
    if memory == "dram":
        rows = asyncio.run(reads(memory, task.scale.reads))
    elif not task.on_gpu:
        return [], "no GPU"
    else:
        try:
            rows = asyncio.run(reads(memory, task.scale.reads))
        except Exception as error:  # NIXL raises its own types
            return [], f"{type(error).__name__}: {error}"
    print(*rows, sep="\n", flush=True)
    return rows, ""
