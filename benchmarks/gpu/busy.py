"""The share of time in which a GPU is busy, as NVIDIA's driver counts it.

NVML counts a moment as busy if any kernel runs, however few of the GPU's cores it fills: with a
low share the GPU waits for the host, but with a high share it may still have room.
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_EVERY_SECONDS = 0.25


@dataclass
class Busy:
    """Samples of a block; `why_not` is the reason if there are none."""

    why_not: str = ""
    samples: list[float] = field(default_factory=list)

    @property
    def share(self) -> float | None:
        """Return the mean, from 0 to 1; None if nothing was sampled."""
        return statistics.fmean(self.samples) if self.samples else None


@contextmanager
def gpu_busy(device: str, gpus: int = 1) -> Iterator[Busy]:
    """Yield how busy the first `gpus` GPUs of this process are in the block."""
    if device != "cuda":
        yield Busy("no GPU")
        return
    try:
        sample = _sampler(gpus)
    except _Unavailable as error:
        yield Busy(str(error))
        return
    with sampled(sample) as busy:
        yield busy


@contextmanager
def sampled(sample: Callable[[], float], every_seconds: float = _EVERY_SECONDS) -> Iterator[Busy]:
    """Yield samples that a thread takes until the block ends, at least one; none if one fails."""
    busy, ended = Busy(), threading.Event()

    def take() -> None:
        while True:
            done = ended.wait(every_seconds)
            try:
                busy.samples.append(sample())
            except Exception as error:  # of NVML; the mean of some of the time would mislead
                busy.samples.clear()
                busy.why_not = f"{type(error).__name__}: {error}"
                return
            if done:
                return

    thread = threading.Thread(target=take, name="gpu-busy", daemon=True)
    thread.start()
    try:
        yield busy
    finally:
        ended.set()
        thread.join()


class _Unavailable(Exception):
    """NVML cannot be called; the text is the reason."""


def _sampler(gpus: int) -> Callable[[], float]:
    """Return a function that samples the mean share of the GPUs. Raises _Unavailable."""
    nvml = _nvml()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in visible(gpus, _named())]
    rates = nvml.nvmlDeviceGetUtilizationRates
    return lambda: statistics.fmean(rates(handle).gpu for handle in handles) / 100


def gpu_names() -> list[str]:
    """Return the names of all GPUs and, last, the driver's version; nothing without NVML."""
    try:
        nvml = _nvml()
    except _Unavailable:
        return []
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    names = [nvml.nvmlDeviceGetName(handle) for handle in handles]
    return [*names, f"driver {nvml.nvmlSystemGetDriverVersion()}"]


def _nvml() -> Any:
    """Return NVIDIA's bindings, ready. vLLM for GPUs needs them too."""
    try:
        import pynvml
    except ImportError:
        raise _Unavailable("the package nvidia-ml-py is not installed") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _Unavailable(f"NVML: {error}") from None
    return pynvml


def visible(gpus: int, named: Sequence[str]) -> list[int]:
    """Return NVML's indices of the first GPUs, which CUDA_VISIBLE_DEVICES may have `named`."""
    if named and all(name.isdigit() for name in named):
        return [int(name) for name in named][:gpus]
    return list(range(gpus))


def _named() -> list[str]:
    return [n.strip() for n in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if n.strip()]
