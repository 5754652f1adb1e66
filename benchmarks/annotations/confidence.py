"""Whether a word's confidence is how often such words are right.

    python -m benchmarks.annotations.confidence --out FILE [--quick]

Recordings in seen and unseen voices, with and without noise, are transcribed by a server with the
demo model; its words are aligned with those that were said, and are right if they are the same. The
expected calibration error is the mean distance between confidence and the share of words that are
right, over ten equal ranges of confidence, weighted by the words in each.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import jiwer
import numpy as np
import soundfile

from auricle.transcript.confidence import of_words
from auricle.transcript.words import pieces
from auricle_testing.server import serving
from benchmarks.prepared import corpus
from benchmarks.streaming.audio import Samples, spoken

_WORDS, _QUICK = 6_000, 1_200
_SECONDS = 10.0
_PAUSES = (0.05, 0.6)
_RANGES = 10
# Signal to noise in dB, None without: a model that is always right would show nothing.
_NOISES = {"clean": None, "10db": 10.0, "3db": 3.0}
_AT_ONCE = 4


@dataclass(frozen=True)
class Judged:
    """A word that was heard: how sure the model was, and whether it was said."""

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
    """Return the words of `heard`, each of which has a `confidence`, held against what was said."""
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
    """Return what is published of words that were heard."""
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
    """Return how often a right word is surer than a wrong one."""
    difference = right[:, None] - wrong[None, :]
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def confidence(*, quick: bool = False) -> dict[str, float]:
    """Measure it, with fewer words if `quick`."""
    asked = _recordings(_QUICK if quick else _WORDS)
    with serving() as server:
        heard = asyncio.run(_heard(server.url, asked))
    found = figures([word for words in heard for word in words])
    for noise in _NOISES:
        words = [
            w for one, own in zip(asked, heard, strict=True) if one.noise == noise for w in own
        ]
        found[f"confidence_ece_{noise}"] = round(calibration_error(words), 4)
    return found


@dataclass(frozen=True)
class _Asked:
    """A recording: what is said in it, and its samples with the noise of that name."""

    said: str
    samples: Samples
    noise: str


def _recordings(words: int) -> list[_Asked]:
    """Return recordings of about so many words."""
    dice = random.Random(20)
    voices = [corpus(name) for name in ("seen", "unseen")]
    found: list[_Asked] = []
    said = 0
    while said < words:
        number = len(found)
        recording = spoken(voices[number % 2], dice, _SECONDS, _PAUSES)
        noise = list(_NOISES)[number // 2 % len(_NOISES)]
        samples = _noisy(recording.samples, _NOISES[noise], seed=number)
        found.append(_Asked(" ".join(word.text for word in recording.words), samples, noise))
        said += len(recording.words)
    return found


def _noisy(samples: Samples, ratio_db: float | None, seed: int) -> Samples:
    if ratio_db is None:
        return samples
    level = math.sqrt(float(np.mean(np.square(samples)))) * 10 ** (-ratio_db / 20)
    noise = np.random.default_rng(seed).standard_normal(len(samples)) * level
    return np.clip(samples + noise, -1, 1).astype(np.float32)


async def _heard(url: str, asked: Sequence[_Asked]) -> list[list[Judged]]:
    """Return the words of each recording."""
    turns = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(base_url=url, timeout=300) as client:

        async def in_turn(one: _Asked) -> list[Judged]:
            async with turns:
                return judged(one.said, *await _transcribed(client, one.samples))

        return await asyncio.gather(*map(in_turn, asked))


async def _transcribed(client: httpx.AsyncClient, samples: Samples) -> tuple[str, list[float]]:
    """Return the words that were heard, and how sure the model was of each."""
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV")
    answer = await client.post(
        "/v1/audio/transcriptions",
        files={"file": ("speech.wav", file.getvalue())},
        data={"model": "demo", "response_format": "json", "include[]": "logprobs"},
    )
    answer.raise_for_status()
    told = answer.json()
    tokens = [(bytes(one["bytes"]), one["logprob"]) for one in told["logprobs"]]
    split = pieces(told["text"])
    sure = of_words([piece.text for piece in split], tokens)
    known = [one for one in sure if one is not None]
    if len(known) != len(split):
        raise ValueError("the log probabilities are not those of the text")
    return " ".join(piece.word for piece in split), known


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    found = confidence(quick=options.quick)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
