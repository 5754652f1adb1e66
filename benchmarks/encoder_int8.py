"""Whisper's encoder with 8-bit weights: how far its embeddings are from float32, and its time.

    python -m benchmarks.encoder_int8 [--models whisper-tiny.en whisper-base] [--windows 8]

Encodes the first 12 s of recordings of people before cached silence, on one thread, with published
weights (`auricle models pull`). `rows` is `EncodeWorker.compute_type: int8`, which has a scale for
each row of a product; `tensor` is PyTorch's dynamic quantization, which has one for all rows. The
difference is relative: the norm of the difference of a window's embeddings ÷ their norm in float32.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
import warnings
from collections.abc import Sequence

import torch
from torch import nn

from auricle.audio.mel import CLAMP_RANGE
from auricle.checkpoints.download.pull import pull
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.whisper import WhisperChunkEncoder
from benchmarks.harness import Benchmark, Run, main
from benchmarks.real_speech import corpus

_SECONDS, _ROUNDS = 12.0, 3
WAYS = ("float32", "rows", "tensor")


def encoder(checkpoint: ModelCheckpoint, way: str) -> WhisperChunkEncoder:
    """Return the encoder in one of WAYS, with its silence cached."""
    found = WhisperChunkEncoder(checkpoint, "float32", "cpu", 1, int8=way == "rows")
    if way == "tensor":
        _quantise_dynamically(found._encoder.layers)
    found.prepare()
    return found


def _quantise_dynamically(module: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        from torch.ao.nn.quantized.dynamic import Linear
        from torch.ao.quantization import per_channel_dynamic_qconfig

        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                child.qconfig = per_channel_dynamic_qconfig  # type: ignore[assignment]
                setattr(module, name, Linear.from_float(child))
            else:
                _quantise_dynamically(child)


def windows(checkpoint: ModelCheckpoint, count: int) -> list[MelWindow]:
    """Return one window of each of `count` recordings."""
    found = []
    for spoken in corpus.recordings("people")[:count]:
        audio = SegmentAudio(checkpoint.geometry, KeyScheme("", "float32", ""))
        audio.push(spoken.pcm[: int(_SECONDS * corpus.SAMPLE_RATE)])
        window = audio.windows(audio.samples)[0]
        found.append(MelWindow(window.frames, float(window.frames.max()) - CLAMP_RANGE))
    return found


def timed(way: WhisperChunkEncoder, some: Sequence[MelWindow]) -> float:
    """Return the CPU milliseconds of a window, the median of some rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for window in some:
            way.encode([window])
        rounds.append(1000 * (time.process_time() - began) / len(some))
    return statistics.median(rounds)


def _compare(run: Run) -> None:
    print(f"{'model':16} {'way':8} {'ms':>6} {'mean difference':>16} {'largest':>8}")
    for name in run.arguments.models:
        whole = open_checkpoint(pull(name, lambda *_: None))
        geometry = whole.geometry.before_cached_silence()
        checkpoint = dataclasses.replace(whole, geometry=geometry)
        some = windows(checkpoint, run.arguments.windows)
        exact: list[torch.Tensor] = []
        for way in WAYS:
            made = encoder(checkpoint, way)
            found = [made.encode([window])[0] for window in some]
            exact = exact or found
            apart = [float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]
            shown = f"{statistics.mean(apart):16.4f} {max(apart):8.4f}"
            print(f"{name:16} {way:8} {timed(made, some):6.0f} {shown}", flush=True)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", default=["whisper-tiny.en", "whisper-base"])
    parser.add_argument("--windows", type=int, default=8, help="one of each recording")


BENCHMARK = Benchmark(
    description=__doc__, parts={"int8": _compare}, arguments=_arguments, sizes=(), out=None
)

if __name__ == "__main__":
    main(BENCHMARK)
