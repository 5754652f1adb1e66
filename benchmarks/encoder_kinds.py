"""Encoder cost of a chunk of live audio for each kind of model, at its published sizes.

    python -m benchmarks.encoder_kinds

Counts the arithmetic of matrix products, without a checkpoint. A segment is decoded every 640 ms;
finished windows are encoded once, finished seconds convolved once, and chunks of 30 s again each
time. A causal encoder computes nothing again except an incomplete block of 0.32 s.
"""

from __future__ import annotations

from dataclasses import dataclass

from auricle.checkpoints.causal import BLOCK_FRAMES, WINDOW_FRAMES
from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.whole_chunks import LOOKAHEAD, WholeChunks
from auricle.workers.encode.cost import PassCost, causal_cost, whole_chunk_cost, windowed_cost
from benchmarks.harness import Benchmark, Run, main

_GRID_FRAMES = 64
_SEGMENT_SECONDS = (15, 30)
_WINDOW, _BLOCK, _CHANNELS, _CHUNK = 800, 100, 480, 3000
_PAST, _STEM, _PROJECTED = 11, (128, 32), 1536


@dataclass(frozen=True)
class Kind:
    """Sizes of an encoder; `hidden` is the decoder's width."""

    name: str
    width: int
    layers: int
    ffn: int
    hidden: int
    whole_chunks: bool = False
    causal: bool = False


KINDS = (
    Kind("Qwen3-ASR-0.6B", 896, 18, 3584, 1024),
    Kind("Qwen3-ASR-1.7B", 1024, 24, 4096, 2048),
    Kind("Qwen3-Omni-30B-A3B", 1280, 32, 5120, 2048),
    Kind("Qwen2-Audio-7B", 1280, 32, 5120, 4096, whole_chunks=True),
    Kind("Gemma-4-E2B", 1024, 12, 4096, 1536, causal=True),
)


def gflops_a_chunk(kind: Kind, seconds: int) -> float:
    """Return the mean over the decodes of a segment."""
    ends = range(_GRID_FRAMES, seconds * 100 + 1, _GRID_FRAMES)
    return sum(_decode(kind, end) for end in ends) / len(ends) / 1e9


def _decode(kind: Kind, frames: int) -> int:
    """Return the FLOPs of the decode of a segment of `frames` of 10 ms."""
    if kind.causal:
        return _causal(kind, frames)
    geometry, cost = _sizes(kind)
    if kind.whole_chunks:
        return cost.window((frames % _CHUNK or _CHUNK) // 4)
    window = cost.window(geometry.embeddings(frames % _WINDOW or _WINDOW))
    return window + cost.convs([frames % _BLOCK or _BLOCK])


def _causal(kind: Kind, frames: int) -> int:
    """Return the same for a causal encoder; the last frame comes one sample later."""
    cost = causal_cost(kind.width, kind.layers, _PAST, _STEM, _PROJECTED, kind.hidden)
    there, before = frames - 1, max(0, frames - _GRID_FRAMES - 1)
    first = before // BLOCK_FRAMES * BLOCK_FRAMES
    blocks = [min(BLOCK_FRAMES, there - at) for at in range(first, there, BLOCK_FRAMES)]
    window = there - first // WINDOW_FRAMES * WINDOW_FRAMES
    return cost.convs(blocks) + cost.window(-(-window // 4))


def _sizes(kind: Kind) -> tuple[Geometry, PassCost]:
    shared = (kind.width, kind.hidden, 1, 1, 0, 1)
    if kind.whole_chunks:
        cost = whole_chunk_cost(kind.width, kind.layers, kind.ffn, kind.hidden)
        return WholeChunks(_BLOCK, _CHUNK + LOOKAHEAD, *shared), cost
    cost = windowed_cost(kind.width, kind.layers, kind.ffn, _CHANNELS, kind.hidden, _BLOCK)
    return Geometry(_BLOCK, _WINDOW, *shared), cost


def _table(_run: Run) -> None:
    """Print a table."""
    lengths = " | ".join(f"segments of {seconds} s" for seconds in _SEGMENT_SECONDS)
    print(f"| GFLOP a chunk of 640 ms | {lengths} |")
    for kind in KINDS:
        found = " | ".join(f"{gflops_a_chunk(kind, seconds):.0f}" for seconds in _SEGMENT_SECONDS)
        print(f"| {kind.name} | {found} |")


BENCHMARK = Benchmark(description=__doc__, parts={"table": _table}, sizes=(), out=None)

if __name__ == "__main__":
    main(BENCHMARK)
