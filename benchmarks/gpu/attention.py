"""The encoder with each kind of attention that it has on a device, and as its workers run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from auricle.checkpoints.files import ModelCheckpoint
from auricle.workers.encode.attention import Attention
from auricle.workers.encode.bucketed import BucketedEncoder, CudaGraphs
from auricle.workers.encode.windowed import WindowedEncoder

_THREADS = 1


def encoders(
    checkpoint: ModelCheckpoint, dtype: str, device: str, most_windows: int
) -> Iterator[tuple[str, WindowedEncoder]]:
    """Yield the name of each kind and an encoder that has it, one after the other.

    On a GPU the last encoder, `graphs`, replays recorded passes of up to `most_windows`.
    """
    for kind in get_args(Attention):
        # FlashAttention is for GPUs, in half precision.
        if kind != "varlen" or (device == "cuda" and dtype != "float32"):
            yield kind, WindowedEncoder(checkpoint, dtype, device, _THREADS, kind)
    if device == "cuda":
        recorded = BucketedEncoder(
            checkpoint, dtype, device, _THREADS, most_windows, CudaGraphs().capture
        )
        recorded.prepare()
        yield "graphs", recorded
