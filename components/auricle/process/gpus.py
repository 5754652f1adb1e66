"""The GPUs of this machine, as the NVIDIA driver's management library (NVML) describes them.

It makes no context on a GPU, so processes may be forked afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gpu:
    """A GPU's name and memory; None if it has none of its own, or does not answer."""

    name: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Management:
    """The driver's version, and all GPUs; `trouble` is what the driver says itself is wrong."""

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    trouble: str = ""


def read_management() -> Management | None:
    """Ask the driver's management library; None where there is none."""
    try:
        import pynvml  # only environments for GPUs have it (nvidia-ml-py)
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            gpus = tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
            return Management(pynvml.nvmlSystemGetDriverVersion(), gpus)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError_LibraryNotFound:
        return None
    except pynvml.NVMLError as error:
        return Management(trouble=str(error))


def visible_gpus() -> list[Gpu]:
    """Return this process's GPUs; none if there is no driver."""
    found = read_management()
    return visible(found.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")) if found else []


def visible(gpus: Sequence[Gpu], named: str | None) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names; all for None, and where it has UUIDs."""
    if named is None:
        return list(gpus)
    names = [name.strip() for name in named.split(",") if name.strip()]
    if not all(name.isdigit() for name in names):
        return list(gpus)
    return [gpus[int(name)] for name in names if int(name) < len(gpus)]


def described(gpus: Sequence[Gpu]) -> str:
    """Return number and model, such as `2 x NVIDIA H100`; empty without GPUs."""
    names = dict.fromkeys(gpu.name for gpu in gpus)
    return ", ".join(f"{sum(g.name == name for g in gpus)} x {name}" for name in names)


def _gpu(library: Any, index: int) -> Gpu:
    """Describe a GPU as far as it answers: another one that is lost must not stop this process."""
    name, memory_bytes = "unknown GPU", None
    with suppress(library.NVMLError):
        device = library.nvmlDeviceGetHandleByIndex(index)
        name = library.nvmlDeviceGetName(device)
        memory_bytes = library.nvmlDeviceGetMemoryInfo(device).total
    return Gpu(name, memory_bytes)
