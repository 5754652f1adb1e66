"""Recorded files, against the stock vLLM OpenAI server (baseline c), same checkpoint."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import psutil
import soundfile

from auricle_testing.feed import SAMPLE_RATE, speech_marks
from auricle_testing.server import ROOT, free_port, serving
from benchmarks.baselines.openai_server import openai_server
from benchmarks.baselines.protocol import cpu_seconds
from benchmarks.prepared import corpus
from benchmarks.speech import Recording, spoken
from benchmarks.streaming.scale import Scale
from benchmarks.words import errors, rate

MODEL = ROOT / "models/demo"
_SECONDS = 24.0  # the stock server cuts at 30 s of its own
_PAUSES = (0.1, 0.8)


def _ours(recordings: Sequence[Recording]) -> tuple[list[str], float]:
    """(texts, CPU seconds of all server processes)."""
    with serving() as server:
        launcher = psutil.Process(server.process.pid)
        asyncio.run(speech_marks(server.url, recordings[0].samples))  # first contact
        before = cpu_seconds(launcher)
        texts = [
            asyncio.run(speech_marks(server.url, recording.samples))[-1]["text"]
            for recording in recordings[1:]
        ]
        return texts, cpu_seconds(launcher) - before


def _theirs(recordings: Sequence[Recording], work: Path) -> tuple[list[str], float]:
    path = work / "recording.wav"
    results = []
    with openai_server(MODEL, free_port(), work / "baseline-c.log") as server:
        for recording in recordings:
            soundfile.write(path, recording.samples, SAMPLE_RATE)
            results.append(server.transcribe(path))
    path.unlink()
    return [r.text for r in results[1:]], sum(r.cpu_seconds for r in results[1:])


def figures(scale: Scale, work: Path) -> dict[str, float]:
    """CPU and words of the same files; the first one warms both up and is not counted."""
    dice, voices = random.Random(21), corpus("seen")
    recordings = [spoken(voices, dice, _SECONDS, _PAUSES) for _ in range(scale.files + 1)]
    said = [" ".join(word.text for word in r.words) for r in recordings[1:]]
    ours, our_cpu = _ours(recordings)
    theirs, their_cpu = _theirs(recordings, work)
    return {
        "files_wer": rate([errors(a, b) for a, b in zip(said, ours, strict=True)]),
        "files_wer_c": rate([errors(a, b) for a, b in zip(said, theirs, strict=True)]),
        "files_compute_ratio_c": their_cpu / our_cpu,
    }
