"""Measures what each half of the align pool carries, in seconds of speech per second."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.checkpoint.files import Checkpoint
from auricle.errors import AuricleError
from auricle.load.pools import ASKED_WORK
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.processor.aligner import Spoken, WordAligner
from auricle.processor.pools import AlignPool, EncodePool
from auricle.processor.windows import KeyScheme, SegmentAudio
from auricle.profiling.cast import Stage
from auricle.profiling.levels import Level, beyond, knee, level_of
from auricle.runtime import Runtime
from auricle.tasks import cancelled

# Words of a segment that come so long after its final are late. Text does not wait for them.
_LATE_SECONDS = 1.0
_SEGMENT_SECONDS, _WORDS_PER_SECOND = 8.0, 2.5
_MOST_AT_ONCE = 256
_SETTLE_REPORTS, _LEVEL_SECONDS = 2, 6.0
_READY_SECONDS = 60.0
HALVES: tuple[PoolKind, ...] = ("align_encode_worker", "align_worker")


class AlignRamp:
    """Has segments aligned by a graph with one worker of each half, more and more at a time."""

    def __init__(
        self, runtime: Runtime, stage: Stage, aligner: Checkpoint, told: Callable[[str], None]
    ) -> None:
        """`told` is given a line for each level."""
        settings = stage.settings
        self._told = told
        self._stage = stage
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._said = 0.0  # seconds of speech that were answered
        self._interval = settings.load_report_seconds
        self._reports: defaultdict[PoolKind, list[WorkerLoad]] = defaultdict(list)
        clients = [runtime.client(kind, "generate") for kind in HALVES]
        patience = settings.words_deadline_seconds
        self._pools = (
            EncodePool(clients[0], patience, 1),
            AlignPool(clients[1], patience, settings.attempts),
        )
        self._aligner = WordAligner(aligner, settings.dtype, *self._pools)
        self._patience = patience
        for kind in HALVES:
            runtime.subscribe(kind, LOAD_TOPIC, WorkerLoad, self._heard)

    def _heard(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    async def carried(self) -> dict[PoolKind, tuple[float, float]]:
        """Return what one worker of each half carries, in seconds of speech per second, and within
        which response time. Raises AuricleError if one cannot be measured."""
        for pool in self._pools:
            await pool.ready(_READY_SECONDS)
        alone = await self._alone()
        found: dict[PoolKind, tuple[float, float]] = {}
        for kind in HALVES:
            # Divides the time between the halves in proportion to their unloaded times.
            limit = _LATE_SECONDS * alone[kind] / sum(alone.values())
            at = knee(await self._levels(kind, limit), limit)
            self._told(f"{kind}: {at:.1f} s of speech a second, within {limit * 1000:.0f} ms")
            found[kind] = at, limit
        return found

    async def _alone(self) -> Mapping[PoolKind, float]:
        await self._level("align_worker", 1, again=False)
        return {kind: level_of(1, self._reports[kind]).response_seconds for kind in HALVES}

    async def _levels(self, kind: PoolKind, limit: float) -> list[Level]:
        levels: list[Level] = []
        at_once = 1
        while not levels or not beyond(levels[-1], limit):
            if at_once > _MOST_AT_ONCE:
                raise AuricleError(
                    f"{_MOST_AT_ONCE} segments at a time did not saturate one {kind}"
                )
            levels.append(await self._level(kind, at_once, again=kind == "align_worker"))
            self._told(
                f"{kind}: {at_once} segments at a time, {levels[-1].speakers:.1f} s of speech a "
                f"second, take {levels[-1].response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms"
            )
            at_once *= 2
        return levels

    async def _level(self, kind: PoolKind, at_once: int, *, again: bool) -> Level:
        """Keep so many segments in work; with `again` the same ones, which are encoded once."""
        tasks = [asyncio.create_task(self._ask(kind, again=again)) for _ in range(at_once)]
        try:
            await _undisturbed(_SETTLE_REPORTS * self._interval, tasks)
            self._reports.clear()
            self._said = 0.0
            await _undisturbed(_LEVEL_SECONDS, tasks)
            rate = self._said / _LEVEL_SECONDS
        finally:
            await cancelled(tasks)
        found = level_of(at_once, self._reports[kind])
        return Level(rate, found.work, found.response_seconds, found.refused)

    async def _ask(self, kind: PoolKind, *, again: bool) -> None:
        spoken = self._segment()
        while True:
            if kind == "align_worker":
                await self._aligner.times(spoken, self._patience)
            else:
                await self._aligner.encoded(spoken)
            self._said += _SEGMENT_SECONDS
            if not again:
                spoken = self._segment()

    def _segment(self) -> Spoken:
        """Return a part of a recording from a random place, which nobody has encoded yet."""
        stage, name = self._stage, f"profile-{next(self._names)}"
        recording = stage.recordings[int(self._chance.integers(len(stage.recordings)))]
        samples = int(_SEGMENT_SECONDS * SAMPLE_RATE)
        turned = np.roll(recording, -int(self._chance.integers(len(recording))))
        keys = KeyScheme(stage.checkpoint.fingerprint, stage.settings.dtype, name)
        audio = SegmentAudio(stage.checkpoint.geometry, keys)
        audio.push(np.resize(turned, samples).astype(np.int16))
        words = ("profile",) * round(_SEGMENT_SECONDS * _WORDS_PER_SECOND)
        return Spoken(
            *(name, name, audio, samples, milliseconds(samples), words), background=False, trace=""
        )


def costs_of(carried: float) -> dict[str, float]:
    """Return the costs of a profile: a second of speech per second, as a share of a worker."""
    (unit,) = ASKED_WORK
    return {unit: 1.0 / carried}


async def _undisturbed(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    """Wait; raise the error of a task that fails meanwhile."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
