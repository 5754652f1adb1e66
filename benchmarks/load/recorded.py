"""Recorded files: seconds of audio transcribed per second, and their cost in the server."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auricle.audio.pcm import to_int16
from auricle.audio.voice_activity import VoiceActivitySequence, VoiceState
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.recordings.parts import PartCutter
from benchmarks.baselines.live_segments import as_delivered, limits_of
from benchmarks.load.metrics import word_errors
from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols import transcriptions
from benchmarks.load.record import Failed, Record, Refused
from benchmarks.load.subjects import Running
from benchmarks.load.usage import measured
from benchmarks.prepared import corpus
from benchmarks.speech import Word, spoken
from models.training.corpus import SAMPLE_RATE

_BLOCK = 10 * SAMPLE_RATE  # of voice activity in one call: memory grows with it


@dataclass(frozen=True)
class Rtfx:
    """`rtfx` is audio seconds per wall second; `failed` of `files`.

    `cpu_ms` is the CPU time of all of the server's processes per second of audio.
    """

    concurrency: int
    files: int
    failed: int
    rtfx: float
    cpu_ms: float
    wer: float

    def plain(self) -> dict[str, float]:
        """For JSON."""
        return dict(vars(self))


def median(rounds: Sequence[Rtfx]) -> Rtfx:
    """Return the median of every figure."""
    found = {name: statistics.median(r.plain()[name] for r in rounds) for name in vars(rounds[0])}
    return Rtfx(**found)  # type: ignore[arg-type]


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


def cut_at_pauses(plan: SessionPlan) -> list[SessionPlan]:
    """Return the uploads of a client that detects speech and cuts it where auricle would."""
    settings = as_delivered()
    gate = Endpointer(
        EndpointingOptions.over(settings, threshold=None, min_silence_ms=None, pre_roll_ms=None)
    )
    cutter, model, voice = PartCutter(limits_of(settings)), VoiceActivitySequence(), VoiceState()
    parts = []
    for at in range(0, len(plan.pcm), _BLOCK):
        pcm = plan.pcm[at : at + _BLOCK]
        found = model.probabilities(voice, voice.frames(pcm))
        parts += cutter.push(gate.push(pcm, found.tolist()))
    last = model.probabilities(voice, voice.frames(plan.pcm[:0], last=True))
    parts += [*cutter.push(gate.finish(last.tolist())), *cutter.finish()]
    return [
        SessionPlan(f"{plan.name}-{part.start}", np.frombuffer(part.pcm, "<i2"), (), ())
        for part in parts
    ]


async def rtfx(
    server: Running,
    plans: Sequence[SessionPlan],
    concurrency: int,
    pieces: Sequence[Sequence[SessionPlan]] | None = None,
) -> Rtfx:
    """Transcribe all files, with `concurrency` requests at a time.

    Each file is one request, or with `pieces` one for each of its pieces.
    """
    target = server.target(640)
    sent = [[Record(piece, 0.0, 0.0) for piece in some] for some in pieces or [[p] for p in plans]]
    waiting = deque(record for some in sent for record in some)
    async with transcriptions.connection() as client:

        async def upload() -> None:
            while waiting:
                record = waiting.popleft()
                try:
                    await transcriptions.upload(client, target, record)
                    record.outcome = "done"
                except (Failed, Refused) as error:
                    record.outcome, record.reason = "failed", str(error)

        with measured(server.process) as usage:
            began = time.monotonic()
            await asyncio.gather(*(upload() for _ in range(concurrency)))
            seconds = time.monotonic() - began
    files = [_whole(plan, some) for plan, some in zip(plans, sent, strict=True)]
    done = [file for file in files if file.outcome == "done"]
    return Rtfx(
        concurrency=concurrency,
        files=len(files),
        failed=len(files) - len(done),
        rtfx=sum(file.plan.seconds for file in done) / seconds,
        cpu_ms=1000 * usage.total_cpu_seconds / sum(file.plan.seconds for file in files),
        wer=word_errors(files).wer,
    )


def _whole(plan: SessionPlan, pieces: Sequence[Record]) -> Record:
    """Return the record of a file from the records of its pieces."""
    failed = next((piece for piece in pieces if piece.outcome != "done"), None)
    whole = Record(plan, 0.0, 0.0, outcome="done" if failed is None else "failed")
    whole.reason = "" if failed is None else failed.reason
    whole.text = " ".join(piece.text for piece in pieces if piece.text)
    return whole
