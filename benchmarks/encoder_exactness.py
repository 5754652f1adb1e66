"""The encoder's attention on a GPU against transformers' own, with random weights.

    python -m benchmarks.encoder_exactness

The encoder has the full published geometry; windows of mixed lengths share a pass. Prints the
largest absolute difference of an embedding, by geometry, precision and way: `varlen` and `padded`
are one kernel per layer for all windows; `buckets` is the same with passes padded to a bucket and
recorded (as CUDA graphs on a GPU; a CPU repeats them). On a CPU a plain kernel replaces `varlen`'s.
Exits with 1 if a difference in float32 is above 1e-4.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.workers.encode.attention import Attention, attention_for
from auricle.workers.encode.bucketed import BucketedEncoder, CudaGraphs, eager
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.windowed import WindowedEncoder
from benchmarks.checkpoints import SIZES, write_checkpoint
from benchmarks.harness import Benchmark, Run, main

FRAMES = (800, 64, 800, 436, 8, 100, 564, 1)
MOST = 1e-4  # in float32
_FLOOR = -6.0


@dataclass(frozen=True)
class Difference:
    """The `largest` difference of an embedding, and its largest absolute value."""

    size: str
    dtype: str
    way: str
    largest: float
    value: float

    @property
    def passes(self) -> bool:
        """Whether float32 is exact; other types have no bound."""
        return self.dtype != "float32" or self.largest <= MOST


def differences(
    size: str, dtypes: Sequence[str], device: str, layers: int | None
) -> Iterator[Difference]:
    """Yield the differences of one geometry; `layers` truncates its encoder."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = _checkpoint(size, Path(folder), layers)
        for dtype in dtypes:
            expected = _encoded(WindowedEncoder(checkpoint, dtype, device, 1, "per_window"))
            value = float(expected.abs().max())
            for way, encoder in _ways(checkpoint, dtype, device):
                largest = float((_encoded(encoder) - expected).abs().max())
                yield Difference(size, dtype, way, largest, value)


def _checkpoint(size: str, folder: Path, layers: int | None) -> ModelCheckpoint:
    """Write an encoder in the published geometry, with next to no decoder."""
    whole = SIZES[size]
    cut = {} if layers is None else {"encoder_layers": layers, "num_hidden_layers": layers}
    text = whole.text | {"num_hidden_layers": 1, "intermediate_size": 64}
    write_checkpoint(
        dataclasses.replace(whole, audio=whole.audio | cut, text=text, vocabulary=8192), folder
    )
    return open_checkpoint(folder)


def _ways(
    checkpoint: ModelCheckpoint, dtype: str, device: str
) -> Iterator[tuple[str, WindowedEncoder]]:
    on_gpu = torch.device(device).type == "cuda"
    ways: list[Attention] = ["varlen", "padded"]
    if on_gpu:  # the kernel of `varlen` has no float32 there
        best = attention_for(torch.device(device), getattr(torch, dtype))
        ways = [way for way in ways if way in (best, "padded")]
    for way in ways:
        yield way, WindowedEncoder(checkpoint, dtype, device, 1, way)
        recorder = CudaGraphs().capture if on_gpu else eager
        recorded = BucketedEncoder(checkpoint, dtype, device, 1, len(FRAMES), recorder, way)
        recorded.prepare()
        yield f"{way}, buckets", recorded


def _encoded(encoder: WindowedEncoder) -> torch.Tensor:
    random = np.random.default_rng(0)
    mels = (random.uniform(-8, 2, (frames, BINS)).astype(np.float32) for frames in FRAMES)
    embeddings = encoder.encode([MelWindow(mel, _FLOOR) for mel in mels])
    return torch.cat(embeddings).float().cpu()


def _exactness(run: Run) -> None:
    arguments, passed = run.arguments, True
    print(f"{'geometry':9} {'precision':9} {'way':16} {'max abs diff':>12} {'largest value':>14}")
    for size in arguments.sizes:
        for one in differences(size, arguments.dtypes, arguments.device, arguments.layers):
            passed &= one.passes
            print(
                f"{one.size:9} {one.dtype:9} {one.way:16} {one.largest:12.2e} {one.value:14.3f}",
                flush=True,
            )
    if not passed:
        sys.exit(f"float32 differs by more than {MOST}")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", nargs="+", default=["0.6b", "1.7b"], choices=SIZES)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, help="of the encoder; all by default")


BENCHMARK = Benchmark(
    description=__doc__, parts={"exactness": _exactness}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
