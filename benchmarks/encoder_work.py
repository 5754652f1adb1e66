"""Encoder work per second of audio: re-encoding everything, the tail window, only new seconds.

    python -m benchmarks.encoder_work

Counts, over a session in 30 s segments at 640 ms chunks, the windows and blocks of the encoder and
the FLOPs of its matrix products, for the geometries of the demo and of Qwen/Qwen3-ASR-0.6B. Also
measures the demo encoder's time for one session's decodes, with the three methods in turn in one
process and one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.geometry import Geometry, read_geometry
from auricle.workers.encode.cost import PassCost, windowed_cost
from auricle.workers.encode.encoder import MelBlock
from auricle.workers.encode.windowed import WindowedEncoder
from benchmarks.checkpoints import SIZES
from benchmarks.harness import Benchmark, Run, main
from models.training.geometry import demo_config

_CHUNK_FRAMES = 64
_SEGMENT_FRAMES = 3_000
_MODEL = Path("models/demo")


@dataclass(frozen=True)
class Work:
    """Work of one decode, in frames: windows of the transformer, blocks of the conv stack."""

    windows: tuple[int, ...]
    blocks: tuple[int, ...]


def everything(frames: int, geometry: Geometry) -> Work:
    """Encode all audio of the segment again."""
    return Work(_windows(frames, geometry), _blocks(frames, geometry))


def tail_window(frames: int, geometry: Geometry) -> Work:
    """Encode whole windows that are new or have grown since the last decode."""
    windows = _windows(frames, geometry)[_finished(frames, geometry) :]
    return Work(windows, tuple(b for w in windows for b in _blocks(w, geometry)))


def new_seconds(frames: int, geometry: Geometry) -> Work:
    """As `tail_window`, but blocks that were final at the last decode are not convolved."""
    windows = _windows(frames, geometry)[_finished(frames, geometry) :]
    known = (frames - _CHUNK_FRAMES - 1) // geometry.block_frames  # a last frame may still change
    return Work(windows, _blocks(frames, geometry)[max(0, known) :])


def _finished(frames: int, geometry: Geometry) -> int:
    return max(0, (frames - _CHUNK_FRAMES - 1) // geometry.window_frames)


def _windows(frames: int, geometry: Geometry) -> tuple[int, ...]:
    return _pieces(frames, geometry.window_frames)


def _blocks(frames: int, geometry: Geometry) -> tuple[int, ...]:
    return _pieces(frames, geometry.block_frames)


def _pieces(frames: int, span: int) -> tuple[int, ...]:
    return tuple(min(span, frames - start) for start in range(0, frames, span))


WAYS: dict[str, Callable[[int, Geometry], Work]] = {
    "everything again": everything,
    "tail window again": tail_window,
    "new seconds only": new_seconds,
}


def decodes(seconds: int, geometry: Geometry, way: str) -> list[Work]:
    """Return the work of every decode of a session."""
    total, work = seconds * 100, []
    for start in range(0, total, _SEGMENT_FRAMES):
        length = min(_SEGMENT_FRAMES, total - start)
        for frames in [*range(_CHUNK_FRAMES, length, _CHUNK_FRAMES), length]:
            work.append(WAYS[way](frames, geometry))
    return work


def flops(work: Sequence[Work], cost: PassCost, geometry: Geometry) -> float:
    """Return the FLOPs of all decodes."""
    return float(
        sum(
            cost.convs(w.blocks) + sum(cost.window(geometry.embeddings(n)) for n in w.windows)
            for w in work
        )
    )


def seconds_of(work: Sequence[Work], encoder: WindowedEncoder) -> float:
    """Measure the seconds of the real modules for these decodes of one session."""
    noise = np.random.default_rng(0).uniform(-6, 2, (100, 128)).astype(np.float32)
    (known,) = encoder.convolve([MelBlock(noise, -6.0)])
    began = time.perf_counter()
    for one in work:
        encoder.convolve([MelBlock(noise[:n], -6.0) for n in one.blocks])
        encoder.attend([[known] * -(-n // 100) for n in one.windows])
    return time.perf_counter() - began


def _work(run: Run) -> None:
    torch.set_num_threads(1)
    checkpoint = open_checkpoint(_MODEL)
    encoder = WindowedEncoder(checkpoint, "float32", "cpu", threads=1)
    config = demo_config({"vocab_size": 151_936, "<|audio_start|>": 0, "<|audio_end|>": 1}
                         | {"<|audio_pad|>": 2})["thinker_config"]  # fmt: skip
    published: dict[str, Any] = config["audio_config"] | SIZES["0.6b"].audio
    shapes = {
        "models/demo": (checkpoint.geometry, dict(checkpoint.audio_config)),
        "Qwen3-ASR-0.6B": (
            read_geometry(published, config["text_config"] | SIZES["0.6b"].text, 2),
            published,
        ),
    }
    print("| geometry | session | way | windows/s | blocks/s | GFLOP/s of audio | ÷ new |")
    print("|---|---|---|---|---|---|---|")
    for name, (geometry, audio) in shapes.items():
        layers, ffn, channels = (
            int(audio[key])
            for key in ("encoder_layers", "encoder_ffn_dim", "downsample_hidden_size")
        )
        width, output = geometry.encoder_d_model, geometry.hidden_size
        cost = windowed_cost(width, layers, ffn, channels, output, geometry.block_frames)
        for seconds in (60, 300):
            least = flops(decodes(seconds, geometry, "new seconds only"), cost, geometry)
            for way in WAYS:
                work = decodes(seconds, geometry, way)
                total = flops(work, cost, geometry)
                windows = sum(len(w.windows) for w in work) / seconds
                blocks = sum(len(w.blocks) for w in work) / seconds
                print(
                    f"| {name} | {seconds} s | {way} | {windows:.2f} | {blocks:.2f} "
                    f"| {total / seconds / 1e9:.2f} | {total / least:.2f} |"
                )
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(run.arguments.repeats):
        for way in WAYS:
            times[way].append(seconds_of(decodes(60, checkpoint.geometry, way), encoder))
    least = statistics.median(times["new seconds only"])
    for way, values in times.items():
        median = statistics.median(values)
        print(f"models/demo, 60 s, {way}: {median:.2f} s, {median / least:.2f} of new seconds only")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5)


BENCHMARK = Benchmark(
    description=__doc__, parts={"work": _work}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
