"""The encoder's passes over live windows, by their number and the kind of attention.

A pass is the work of an encode worker for a batch of live sessions: it convolves the seconds of
each that are new since the last decode, and attends over the whole open window. Copies from the
device, batching and caches are the part `worker`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.geometry import Geometry
from auricle.workers.encode.cost import cost_of
from auricle.workers.encode.encoder import MelBlock, MelWindow
from auricle.workers.encode.windowed import WindowedEncoder
from benchmarks.encoder_work import Work, flops, new_seconds
from benchmarks.gpu.attention import encoders
from benchmarks.gpu.busy import gpu_busy
from benchmarks.gpu.device import Device
from benchmarks.gpu.found import Found, Task
from benchmarks.gpu.parts import CEILINGS
from benchmarks.prepared import checkpoint as prepared

CHUNK_SECONDS = 0.64
_CHUNK_FRAMES = 64
_FLOOR = -6.0
_LARGE = "_1_7b"


def live_work(count: int, geometry: Geometry, seed: int = 0) -> Work:
    """Return the work of the next decode of `sessions` sessions, with open windows of any age."""
    whole = geometry.window_frames
    ages = [*range(_CHUNK_FRAMES, whole, _CHUNK_FRAMES), whole]
    found = [
        new_seconds(int(frames), geometry)
        for frames in np.random.default_rng(seed).choice(ages, count)
    ]
    return Work(
        tuple(frames for one in found for frames in one.windows),
        tuple(frames for one in found for frames in one.blocks),
    )


class Passes:
    """An encoder and noise to encode."""

    def __init__(self, encoder: WindowedEncoder, geometry: Geometry) -> None:
        self._encoder = encoder
        self._block_frames = geometry.block_frames
        values = np.random.default_rng(0).uniform(-8, 2, (geometry.window_frames, BINS))
        self.values = values.astype(np.float32)
        self._convolved: dict[int, torch.Tensor] = {}  # by frames

    def blocks(self, work: Work) -> list[MelBlock]:
        """Return the input of the convolutions."""
        return [MelBlock(self.values[:frames], _FLOOR) for frames in work.blocks]

    def windows(self, work: Work) -> list[list[torch.Tensor]]:
        """Return the input of attention: conv outputs from the cache and the convolutions."""
        return [
            [self._block(n) for n in self._pieces(frames)] for frames in work.windows
        ]  # fmt: skip

    def _pieces(self, frames: int) -> list[int]:
        whole, rest = divmod(frames, self._block_frames)
        return [self._block_frames] * whole + [rest] * bool(rest)

    def _block(self, frames: int) -> torch.Tensor:
        if frames not in self._convolved:
            (output,) = self._encoder.convolve([MelBlock(self.values[:frames], _FLOOR)])
            self._convolved[frames] = output
        return self._convolved[frames]


@dataclass(frozen=True)
class _Timed:
    """Seconds of a pass, and of its two halves each by itself."""

    together: float
    convolve: float
    attend: float
    busy: float | None
    why_not_busy: str


def measure(task: Task) -> Found:
    """Measure all numbers of windows with each kind of attention; figures are of the best."""
    scale, found = task.scale, Found()
    large = task.part.endswith("1.7b")
    size = scale.checkpoint_1_7b if large else scale.checkpoint
    checkpoint = open_checkpoint(prepared(size))
    cost = cost_of(checkpoint)
    rows = []
    for attention, encoder in encoders(checkpoint, task.dtype, task.device, max(scale.windows)):
        passes = Passes(encoder, checkpoint.geometry)
        error = _error(checkpoint, encoder, passes.values)
        for count in scale.windows:
            work = live_work(count, checkpoint.geometry)
            timed = _timed(encoder, passes, work, task)
            done = flops([work], cost, checkpoint.geometry)
            row = _row(timed, count, done, task.ceilings[CEILINGS[task.dtype]])
            rows.append({"attention": attention, "windows": count, "error": error} | row)
            print(rows[-1], flush=True)
    found.details["passes"] = rows
    best = max(
        (row for row in rows if row["windows"] == scale.windows[-1]),
        key=lambda row: row["roofline_share"],
    )
    found.details["attention"] = best["attention"]
    for name in ("roofline_share", "tflops", "pass_ms", "conv_share", "streams", "error"):
        found.put(f"encoder_{name}{_LARGE * large}", best[name])
    name = f"encoder_gpu_busy_share{_LARGE * large}"
    found.put(name, best["gpu_busy_share"], best["why_not_busy"])
    return found


def _timed(encoder: WindowedEncoder, passes: Passes, work: Work, task: Task) -> _Timed:
    device, seconds = Device(task.device), task.scale.seconds / 4
    blocks, windows = passes.blocks(work), passes.windows(work)

    def together() -> None:
        encoder.convolve(blocks)
        encoder.attend(windows)

    convolve = device.median_seconds(lambda: encoder.convolve(blocks), seconds)
    attend = device.median_seconds(lambda: encoder.attend(windows), seconds)
    with gpu_busy(task.device) as busy:
        both = device.median_seconds(together, 2 * seconds)
    return _Timed(both, convolve, attend, busy.share, busy.why_not)


def _row(timed: _Timed, count: int, done: float, ceiling: float) -> dict[str, Any]:
    tflops = done / timed.together / 1e12
    return {
        "pass_ms": 1000 * timed.together,
        "convolve_ms": 1000 * timed.convolve,
        "attend_ms": 1000 * timed.attend,
        "conv_share": timed.convolve / (timed.convolve + timed.attend),
        "tflops": tflops,
        "roofline_share": tflops / ceiling,
        "streams": count * CHUNK_SECONDS / timed.together,
        "gpu_busy_share": timed.busy,
        "why_not_busy": timed.why_not_busy,
    }


def _error(checkpoint: ModelCheckpoint, encoder: WindowedEncoder, values: np.ndarray) -> float:
    """Return the largest difference from float32 on a CPU, over the largest value there."""
    ends = (_CHUNK_FRAMES, len(values) // 2, len(values))
    windows = [MelWindow(values[:end], _FLOOR) for end in ends]
    exact = torch.cat(WindowedEncoder(checkpoint, "float32", "cpu", 1).encode(windows))
    here = torch.cat(encoder.encode(windows)).float().cpu()
    return float((here - exact).abs().max() / exact.abs().max())
