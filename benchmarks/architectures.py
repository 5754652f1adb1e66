"""Whether audio in parts gives what a model makes of the whole, for every architecture.

    python -m benchmarks.architectures --out FILE [--quick | --smoke]

A small checkpoint of random weights in each published format is encoded as a live segment grows, by
an encode worker, and decoded at every point of the grid (640 ms) and at the end. Beside it
transformers' own model gets all audio so far at each of these points. Compared are embeddings and
greedy tokens; random weights show every wrong tensor and position, and say nothing about words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.encode_worker.encoders import encoder_for
from auricle.pd_worker.transformers.decoder import TextDecoder
from auricle.pd_worker.transformers.options import TransformersOptions
from auricle.settings import EncodeWorkerSettings
from benchmarks.prepared import corpus
from benchmarks.streaming.audio import spoken
from benchmarks.streaming.environment import environment
from tests import recordings
from tests.gemma import random_gemma4
from tests.other_models import Listens, random_omni, random_qwen2_audio, random_qwen3_asr
from tests.split_path import GRID, GrowingSegment, Worker, encode_worker, greedy

KINDS: dict[str, Callable[[Path], Listens]] = {
    "Qwen3-ASR": random_qwen3_asr,
    "Qwen3-Omni": random_omni,
    "Qwen2-Audio": random_qwen2_audio,
    "Gemma 4": random_gemma4,
}
_SYNTHESISED = {"full": 45, "quick": 7, "smoke": 0}
_SECONDS = (1.0, 4.0)
_LONGEST = 28.0  # of an encoder that takes 30 s at once
_PAUSES = (0.2, 0.6)

Samples = npt.NDArray[np.float32]


@dataclass
class Found:
    """What was found of one architecture; costs are lists over decodes."""

    recordings: int = 0
    differences: list[float] = field(default_factory=list)
    identical: int = 0
    answers: set[tuple[int, ...]] = field(default_factory=set)
    windows: list[int] = field(default_factory=list)
    split_seconds: list[float] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return what is published."""
        decodes = len(self.differences)
        return {
            "recordings": self.recordings,
            "decodes": decodes,
            "max_embedding_difference": max(self.differences),
            "identical_tokens_share": self.identical / decodes,
            "different_answers": len(self.answers),
            "windows_a_decode": float(np.mean(self.windows)),
            "most_windows_a_decode": max(self.windows),
            "split_encode_ms_p50": 1000 * float(np.median(self.split_seconds)),
            "whole_encode_ms_p50": 1000 * float(np.median(self.whole_seconds)),
        }


def _recordings(size: str) -> list[Samples]:
    """Return the bundled recordings, and shorter ones that are synthesised."""
    found = [recordings.samples(name) for name in recordings.NAMES]
    if size == "smoke":
        return [min(found, key=len)]
    voices, dice = corpus("unseen"), random.Random(22)
    for _ in range(_SYNTHESISED[size]):
        found.append(spoken(voices, dice, dice.uniform(*_SECONDS), _PAUSES).samples)
    most = int(_LONGEST * recordings.SAMPLE_RATE)
    return [samples[:most] for samples in found]


async def _compared(make: Callable[[Path], Listens], heard: Sequence[Samples]) -> Found:
    with tempfile.TemporaryDirectory() as directory:
        stock = make(Path(directory))
        checkpoint = open_checkpoint(Path(directory))
        settings = EncodeWorkerSettings(dtype="float32", threads=1)
        options = TransformersOptions("float32", "cpu", 1, 1024, 1, 1)
        decoder, prompt = TextDecoder(checkpoint, options), PromptFormat(checkpoint)
        found = Found()
        async with encode_worker(checkpoint, encoder_for(checkpoint, settings)) as worker:
            for samples in heard:
                await _one(found, stock, worker, decoder, prompt, samples)
    return found


async def _one(
    found: Found,
    stock: Listens,
    worker: Worker,
    decoder: TextDecoder,
    prompt: PromptFormat,
    samples: Samples,
) -> None:
    """Add what one recording shows, as it grows."""
    pcm = to_int16(samples)
    segment = GrowingSegment(worker, pcm)
    head, tail = prompt.head(""), prompt.tail(None)
    found.recordings += 1
    for end in (*range(GRID, len(pcm), GRID), len(pcm)):
        decode = await segment.until(end)
        heard = to_float(pcm[:end])
        expected = stock.embeddings(heard)
        found.whole_seconds.append(stock.seconds)
        found.split_seconds.append(decode.seconds)
        found.windows.append(decode.windows)
        found.differences.append(float((decode.embeddings - expected).abs().max()))
        tokens = greedy(decoder, decode.embeddings, head, tail, prompt.stop_tokens)
        found.identical += tokens == stock.tokens(heard, head, tail)
        found.answers.add(tuple(tokens))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="12 recordings")
    scale.add_argument("--smoke", action="store_true", help="one recording: only whether it runs")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    size = "quick" if arguments.quick else "smoke" if arguments.smoke else "full"
    heard = _recordings(size)
    began, result = time.monotonic(), {}
    for name in arguments.only:
        result[name] = asyncio.run(_compared(KINDS[name], heard)).figures()
        print(name, json.dumps(result[name], indent=1), flush=True)
        report = {
            "architectures": result,
            "audio_seconds": sum(map(len, heard)) / recordings.SAMPLE_RATE,
            "took_seconds": time.monotonic() - began,
            "environment": environment(),
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
