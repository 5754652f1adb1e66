"""Recorded files: seconds of audio transcribed per second, ours beside stock vLLM's server."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, replace

import numpy as np

from auricle.audio.pcm import to_int16
from benchmarks.load.metrics import word_errors
from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols import transcriptions
from benchmarks.load.record import Failed, Record, Refused
from benchmarks.load.subjects import Running
from benchmarks.prepared import corpus
from benchmarks.streaming.audio import Word, spoken
from models.training.corpus import SAMPLE_RATE


@dataclass(frozen=True)
class Rtfx:
    """`rtfx` is audio seconds per wall second; `failed` of `files`."""

    concurrency: int
    files: int
    failed: int
    rtfx: float
    wer: float

    def plain(self) -> dict[str, float]:
        """For JSON."""
        return dict(vars(self))


def recordings(count: int, seconds: float, seed: int) -> list[SessionPlan]:
    """Speech with pauses; a long one is repeated speech of one speaker at another level."""
    voices, dice = corpus("seen"), random.Random(seed)
    plans = []
    for number in range(count):
        recording = spoken(voices, dice, seconds, (0.2, 1.0))
        gain = np.float32(dice.uniform(0.5, 0.95))
        pcm = to_int16(recording.samples[: round(seconds * SAMPLE_RATE)] * gain)
        words: tuple[Word, ...] = tuple(w for w in recording.words if w.end <= seconds)
        plans.append(SessionPlan(f"{seed}-{number}", pcm, words, ()))
    return plans


async def rtfx(
    server: Running,
    plans: list[SessionPlan],
    concurrency: int,
    answer_tokens: int | None = None,
) -> Rtfx:
    """All files, so many at a time, each as its own request; see `Target.answer_tokens`."""
    target = replace(server.target(640), answer_tokens=answer_tokens)
    waiting = list(plans)
    records: list[Record] = []

    async def client() -> None:
        while waiting:
            record = Record(waiting.pop(), 0.0, time.monotonic())
            records.append(record)
            try:
                await transcriptions.run(target, record)
                record.outcome = "done"
            except (Failed, Refused) as error:
                record.outcome, record.reason = "failed", str(error)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    seconds = time.monotonic() - began
    done = [r for r in records if r.outcome == "done"]
    return Rtfx(
        concurrency=concurrency,
        files=len(records),
        failed=len(records) - len(done),
        rtfx=sum(r.plan.seconds for r in done) / seconds,
        wer=word_errors(records).wer,
    )
