"""Whether audio in parts and whole audio give the same answers, for every architecture.

    python -m benchmarks.architectures --out FILE [--quick | --smoke] [--only MODEL...] [--resume]

With a small checkpoint of random weights in each published format, an encode worker encodes a live
segment as it grows, which is decoded at every grid point (640 ms) and at the end. At each of these
points transformers' own model gets all audio so far. Compared are embeddings, logits and greedy
tokens; random weights reveal every wrong tensor and position, but nothing about words.

A different answer is a tie if all logits of its first different token agree within 1e-4, so that
each model has the two tokens within 2e-4 of each other. FILE is written after each recording, and
`--resume` continues it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import EncodeWorkerSettings
from auricle.workers.encode.main import encoder_for
from auricle.workers.pd.transformers.decoders import Decoder, decoder_of
from auricle.workers.pd.transformers.options import TransformersOptions
from auricle_testing import recordings
from auricle_testing.checkpoints.gemma import random_gemma4
from auricle_testing.checkpoints.other_models import (
    Listens,
    random_omni,
    random_qwen2_audio,
    random_qwen3_asr,
)
from auricle_testing.checkpoints.whisper import random_english_whisper, random_whisper
from auricle_testing.split_path import GRID, GrowingSegment, Worker, encode_worker, greedy_logits
from benchmarks import harness
from benchmarks.harness import Benchmark, Run, UsageError, environment
from benchmarks.prepared import corpus
from benchmarks.speech import spoken

KINDS: dict[str, Callable[[Path], Listens]] = {
    "Qwen3-ASR": random_qwen3_asr,
    "Qwen3-Omni": random_omni,
    "Qwen2-Audio": random_qwen2_audio,
    "Gemma 4": random_gemma4,
    "Whisper": random_whisper,
    "Whisper (English)": random_english_whisper,
}
_SYNTHESISED = {"full": 45, "quick": 7, "smoke": 0}
_SECONDS = (1.0, 4.0)
_LONGEST = 28.0  # of an encoder that takes 30 s at once
_PAUSES = (0.2, 0.6)

_TIE = 1e-4  # between logits of one token: the bar of embeddings

Samples = npt.NDArray[np.float32]


class Difference(msgspec.Struct, frozen=True):
    """Two answers up to their first different token, number `at`.

    A margin is by how much a model prefers its own token to the other's; `logits` is the largest
    difference between the logits of both models there.
    """

    at: int
    ours: int
    theirs: int
    our_margin: float
    their_margin: float
    logits: float

    @property
    def tie(self) -> bool:
        """Whether only rounding differs."""
        return self.logits <= _TIE


class Row(msgspec.Struct, frozen=True):
    """The outcome of one recording; lists are over its decodes.

    `logits` are largest differences, up to the first different token. `crc` is the audio's.
    """

    samples: int
    crc: int = 0
    embeddings: list[float] = []
    logits: list[float] = []
    answers: list[list[int]] = []
    differences: list[Difference] = []
    windows: list[int] = []
    split_seconds: list[float] = []
    whole_seconds: list[float] = []


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Return the figures of one architecture."""
    decodes = sum(len(row.answers) for row in rows)
    different = [one for row in rows for one in row.differences]
    ties = [one for one in different if one.tie]
    windows = [one for row in rows for one in row.windows]
    return {
        "recordings": len(rows),
        "decodes": decodes,
        "max_embedding_difference": max(max(row.embeddings) for row in rows),
        "max_logit_difference": max(max(row.logits) for row in rows),
        "identical_tokens_share": 1 - len(different) / decodes,
        "ties": len(ties),
        "largest_tie_margin": max((max(t.our_margin, t.their_margin) for t in ties), default=0.0),
        "different_beyond_ties": len(different) - len(ties),
        "different_answers": len({tuple(answer) for row in rows for answer in row.answers}),
        "windows_a_decode": float(np.mean(windows)),
        "most_windows_a_decode": max(windows),
        "split_encode_ms_p50": 1000 * _median(row.split_seconds for row in rows),
        "whole_encode_ms_p50": 1000 * _median(row.whole_seconds for row in rows),
    }


def _median(parts: Iterable[list[float]]) -> float:
    return float(np.median([one for part in parts for one in part]))


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[float, Difference | None]:
    """Compare the logits of two answers, (tokens, vocabulary).

    Returns their largest difference up to the first different token, and the Difference there; None
    if the answers are equal. Raises ValueError if one only ends earlier.
    """
    shared = min(len(ours), len(theirs))
    # A token that is never generated has no finite logit in either.
    apart = (ours[:shared] - theirs[:shared]).nan_to_num(nan=0.0).abs().amax(1)
    tokens = ours.argmax(1)[:shared], theirs.argmax(1)[:shared]
    places = torch.nonzero(tokens[0] != tokens[1])
    if not len(places):
        if len(ours) != len(theirs):
            raise ValueError(f"one answer has {len(ours)} tokens, the same one {len(theirs)}")
        return float(apart.max()), None
    at = int(places[0])
    mine, other = int(tokens[0][at]), int(tokens[1][at])
    return float(apart[: at + 1].max()), Difference(
        at=at,
        ours=mine,
        theirs=other,
        our_margin=float(ours[at, mine] - ours[at, other]),
        their_margin=float(theirs[at, other] - theirs[at, mine]),
        logits=float(apart[at]),
    )


def _recordings(size: str) -> list[Samples]:
    """Return the bundled recordings, and shorter synthesised ones."""
    found = [recordings.samples(name) for name in recordings.NAMES]
    if size == "smoke":
        return [min(found, key=len)]
    voices, dice = corpus("unseen"), random.Random(22)
    for _ in range(_SYNTHESISED[size]):
        found.append(spoken(voices, dice, dice.uniform(*_SECONDS), _PAUSES).samples)
    most = int(_LONGEST * recordings.SAMPLE_RATE)
    return [samples[:most] for samples in found]


@dataclass(frozen=True)
class _Model:
    """A random checkpoint: transformers' own model, and the parts of the split path."""

    stock: Listens
    worker: Worker
    decoder: Decoder
    prompt: PromptFormat

    async def row(self, samples: Samples) -> Row:
        """Return the outcome of one recording, as it grows."""
        pcm = to_int16(samples)
        segment = GrowingSegment(self.worker, pcm)
        head, tail = self.prompt.head(""), self.prompt.tail(None)
        row = Row(len(pcm), _crc(samples))
        for end in (*range(GRID, len(pcm), GRID), len(pcm)):
            decode = await segment.until(end)
            whole = to_float(pcm[:end])
            expected = self.stock.embeddings(whole)
            row.whole_seconds.append(self.stock.seconds)
            row.split_seconds.append(decode.seconds)
            row.windows.append(decode.windows)
            row.embeddings.append(float((decode.embeddings - expected).abs().max()))
            ours = greedy_logits(
                self.decoder, decode.embeddings, head, tail, self.prompt.stop_tokens
            )
            apart, different = difference(ours, self.stock.logits(whole, head, tail))
            row.answers.append(ours.argmax(1).tolist())
            row.logits.append(apart)
            row.differences.extend([] if different is None else [different])
        return row


async def _compared(
    make: Callable[[Path], Listens],
    recorded: Sequence[Samples],
    rows: list[Row],
    done: Callable[[], None],
) -> None:
    """Add the missing rows of the recordings to `rows`; call `done` after each."""
    with tempfile.TemporaryDirectory() as directory:
        stock = make(Path(directory))
        checkpoint = open_checkpoint(Path(directory))
        settings = EncodeWorkerSettings(dtype="float32", threads=1)
        options = TransformersOptions("float32", "cpu", 1, 1024, 1, 1)
        decoder, prompt = decoder_of(checkpoint, options), PromptFormat(checkpoint)
        async with encode_worker(checkpoint, encoder_for(checkpoint, settings)) as worker:
            model = _Model(stock, worker, decoder, prompt)
            for samples in recorded[len(rows) :]:
                rows.append(await model.row(samples))
                done()


def resumed(found: dict[str, Any], recorded: Sequence[Samples], size: str) -> dict[str, list[Row]]:
    """Return the rows of a file that was written before, by architecture.

    Raises ValueError if it is of another commit, size or audio.
    """
    commit = environment()["commit"]
    if (found["environment"]["commit"], found["size"]) != (commit, size):
        raise ValueError(
            f"the file is from {found['environment']['commit']}, {found['size']}; this is "
            f"{commit}, {size}"
        )
    rows = msgspec.convert(found["rows"], dict[str, list[Row]])
    for name, those in rows.items():
        if [row.crc for row in those] != [_crc(one) for one in recorded[: len(those)]]:
            raise ValueError(f"the recordings of {name} have changed since")
    return rows


def _crc(samples: Samples) -> int:
    return zlib.crc32(to_int16(samples).tobytes())


def _architectures(run: Run) -> None:
    recorded = _recordings(run.size)
    rows: dict[str, list[Row]] = {}
    if run.arguments.resume:
        assert run.out is not None
        try:
            rows = resumed(harness.read(run.out), recorded, run.size)
        except (ValueError, KeyError) as error:
            raise UsageError(f"--resume: {error}") from None

    def save() -> None:
        run.extra |= {
            "size": run.size,
            "architectures": {name: figures(those) for name, those in rows.items() if those},
            "audio_seconds": sum(map(len, recorded)) / recordings.SAMPLE_RATE,
            "rows": msgspec.to_builtins(rows),
        }
        run.save()

    for name in run.arguments.models:
        asyncio.run(_compared(KINDS[name], recorded, rows.setdefault(name, []), save))
        print(name, json.dumps(figures(rows[name]), indent=1), flush=True)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", nargs="+", choices=KINDS, default=list(KINDS), dest="models", metavar="MODEL"
    )
    parser.add_argument("--resume", action="store_true", help="continue FILE")


BENCHMARK = Benchmark(
    description=__doc__, parts={"architectures": _architectures}, arguments=_arguments
)

if __name__ == "__main__":
    harness.main(BENCHMARK)
