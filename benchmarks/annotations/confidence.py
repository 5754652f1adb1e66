"""Calibration of word confidence: does it equal the share of right words?

    python -m benchmarks.annotations.confidence --out FILE [--quick]

A server with the demo model transcribes recordings in seen and unseen voices, with and without
noise; its words are aligned with the spoken ones, and are right if they are the same. The expected
calibration error is the mean distance between confidence and the share of right words, over ten
equal ranges of confidence, weighted by the words in each.
"""

from __future__ import annotations

import asyncio
import io
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import jiwer
import numpy as np
import soundfile

from auricle.transcript.confidence import of_words
from auricle.transcript.words import pieces
from auricle_testing.server import serving
from benchmarks.harness import Benchmark, Run, main
from benchmarks.prepared import corpus
from benchmarks.sessions import limited
from benchmarks.speech import Samples, spoken

_WORDS = (6_000, 1_200, 1_200)
_SECONDS = 10.0
_PAUSES = (0.05, 0.6)
_RANGES = 10
# Signal-to-noise ratio in dB; None adds no noise. Noise causes errors: a model that is always right
# cannot show whether its confidence is calibrated.
_NOISES = {"clean": None, "10db": 10.0, "3db": 3.0}
_AT_ONCE = 4


@dataclass(frozen=True)
class Judged:
    """A recognized word: the model's confidence, and whether the word was spoken there."""

    confidence: float
    right: bool


def calibration_error(words: Sequence[Judged]) -> float:
    """Return the expected calibration error over ten equal ranges of confidence."""
    sure = np.array([word.confidence for word in words])
    right = np.array([word.right for word in words], float)
    ranges = np.minimum((sure * _RANGES).astype(int), _RANGES - 1)
    total = 0.0
    for number in range(_RANGES):
        inside = ranges == number
        if inside.any():
            total += inside.sum() * abs(sure[inside].mean() - right[inside].mean())
    return float(total / len(words))


def judged(said: str, heard: str, confidence: Sequence[float]) -> list[Judged]:
    """Compare the recognized words, each with its `confidence`, with the spoken ones."""
    if len(heard.split()) != len(confidence):
        raise ValueError(f"{len(heard.split())} words have {len(confidence)} confidences")
    right = [False] * len(confidence)
    if heard and said:
        for chunk in jiwer.process_words(said, heard).alignments[0]:
            if chunk.type == "equal":
                for at in range(chunk.hyp_start_idx, chunk.hyp_end_idx):
                    right[at] = True
    return [Judged(sure, is_right) for sure, is_right in zip(confidence, right, strict=True)]


def figures(words: Sequence[Judged]) -> dict[str, float]:
    """Return the figures of recognized words."""
    right = np.array([word.right for word in words])
    sure = np.array([word.confidence for word in words])
    found = {
        "confidence_ece": round(calibration_error(words), 4),
        "confidence_words": float(len(words)),
        "confidence_words_right": round(float(right.mean()), 4),
        "confidence_mean": round(float(sure.mean()), 4),
    }
    if right.any() and not right.all():
        found["confidence_auc"] = round(_auc(sure[right], sure[~right]), 4)
    return found


def _auc(right: Samples, wrong: Samples) -> float:
    """Return how often a right word has a higher confidence than a wrong one."""
    difference = right[:, None] - wrong[None, :]
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def confidence(run: Run) -> dict[str, float]:
    """Measure all noises together, and each by itself."""
    recordings = _recordings(run.of(*_WORDS))
    with serving() as server:
        recognized = asyncio.run(_recognized(server.url, recordings))
    found = figures([word for words in recognized for word in words])
    for noise in _NOISES:
        pairs = zip(recordings, recognized, strict=True)
        words = [word for one, own in pairs if one.noise == noise for word in own]
        found[f"confidence_ece_{noise}"] = round(calibration_error(words), 4)
    return found


@dataclass(frozen=True)
class _Noisy:
    """A recording: its text, and its samples with the noise of that name."""

    text: str
    samples: Samples
    noise: str


def _recordings(words: int) -> list[_Noisy]:
    """Return recordings with about that number of words."""
    dice = random.Random(20)
    voices = [corpus(name) for name in ("seen", "unseen")]
    found: list[_Noisy] = []
    said = 0
    while said < words:
        number = len(found)
        recording = spoken(voices[number % 2], dice, _SECONDS, _PAUSES)
        noise = list(_NOISES)[number // 2 % len(_NOISES)]
        samples = _noisy(recording.samples, _NOISES[noise], seed=number)
        found.append(_Noisy(" ".join(word.text for word in recording.words), samples, noise))
        said += len(recording.words)
    return found


def _noisy(samples: Samples, ratio_db: float | None, seed: int) -> Samples:
    if ratio_db is None:
        return samples
    level = math.sqrt(float(np.mean(np.square(samples)))) * 10 ** (-ratio_db / 20)
    noise = np.random.default_rng(seed).standard_normal(len(samples)) * level
    return np.clip(samples + noise, -1, 1).astype(np.float32)


async def _recognized(url: str, recordings: Sequence[_Noisy]) -> list[list[Judged]]:
    """Return the words of each recording."""
    async with httpx.AsyncClient(base_url=url, timeout=300) as client:

        async def one(recording: _Noisy) -> list[Judged]:
            return judged(recording.text, *await _transcribed(client, recording.samples))

        return await limited(_AT_ONCE, recordings, one)


async def _transcribed(client: httpx.AsyncClient, samples: Samples) -> tuple[str, list[float]]:
    """Return the recognized words, and the confidence of each."""
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV")
    answer = await client.post(
        "/v1/audio/transcriptions",
        files={"file": ("speech.wav", file.getvalue())},
        data={"model": "demo", "response_format": "json", "include[]": "logprobs"},
    )
    answer.raise_for_status()
    body = answer.json()
    tokens = [(bytes(one["bytes"]), one["logprob"]) for one in body["logprobs"]]
    split = pieces(body["text"])
    sure = of_words([piece.text for piece in split], tokens)
    known = [one for one in sure if one is not None]
    if len(known) != len(split):
        raise ValueError("the log probabilities do not match the text")
    return " ".join(piece.word for piece in split), known


BENCHMARK = Benchmark(description=__doc__, parts={"confidence": confidence}, sizes=("quick",))

if __name__ == "__main__":
    main(BENCHMARK)
