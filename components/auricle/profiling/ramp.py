"""Increases the number of speakers on the workers of one kind until they are saturated."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from auricle.errors import AuricleError
from auricle.load.pools import PATH
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.profiling.cast import Cast, Part, Stage
from auricle.profiling.helpers import Helper, parts
from auricle.profiling.levels import Level, beyond, level_of
from auricle.profiling.progress import Progress
from auricle.runtime import Runtime
from auricle.tasks import cancelled

_MOST_SPEAKERS = 4096
_LEVEL_SECONDS = 6.0


class Ramp:
    """Measures levels of load on a graph with one encode worker and the PD workers of a device."""

    def __init__(
        self,
        runtime: Runtime,
        stage: Stage,
        told: Callable[[str], None],
        moved: Callable[[Progress], None],
        ramps: int,
    ) -> None:
        """`told` is given a line for each level of so many `ramps`, `moved` how far it is."""
        self._stage = stage
        self._told = told
        self._moved = moved
        self._cast = Cast(runtime, stage)
        self._helpers: list[Helper] = []
        self._reports: defaultdict[PoolKind, list[WorkerLoad]] = defaultdict(list)
        for pool in PATH:
            runtime.subscribe(pool.kind, LOAD_TOPIC, WorkerLoad, self._heard)
        # Long enough for a percentile, and for every speaker to begin a segment or two.
        interval = stage.settings.load_report_seconds
        self._settle_seconds = 3 * interval
        self._level_seconds = max(_LEVEL_SECONDS, 4 * interval)
        self._progress = Progress(ramps, self._settle_seconds + self._level_seconds)

    def _heard(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    async def ready(self) -> None:
        """Wait until all workers can be called. Raises DeadlineExceeded."""
        await self._cast.ready()

    async def close(self) -> None:
        """End the processes that were started for more speakers."""
        for helper in self._helpers:
            await helper.close()

    async def alone(self, segment_seconds: float) -> dict[PoolKind, float]:
        """Return each pool's 95th percentile response time with a single speaker, in seconds."""
        await self._level(1, segment_seconds, decoding=True)
        found = {kind: level_of(1, reports) for kind, reports in self._reports.items()}
        return {kind: level.response_seconds for kind, level in found.items()}

    async def levels(self, kind: PoolKind, segment_seconds: float, limit: float) -> list[Level]:
        """Measure levels, doubling the speakers until one exceeds `limit` (seconds).

        One more level is measured between the last two. Raises AuricleError if no number of
        speakers saturates the workers, or if a session fails.
        """
        levels: list[Level] = []
        speakers = 1
        while not levels or not beyond(levels[-1], limit):
            if speakers > _MOST_SPEAKERS:
                raise AuricleError(f"{_MOST_SPEAKERS} speakers did not saturate one {kind}")
            levels.append(await self._measured(kind, speakers, segment_seconds, limit))
            speakers *= 2
        if len(levels) > 1:
            between = round(math.sqrt(levels[-2].speakers * levels[-1].speakers))
            levels.append(await self._measured(kind, between, segment_seconds, limit))
        self._progress.ramp_done()
        self._moved(self._progress)
        return sorted(levels, key=lambda level: level.speakers)

    async def _measured(
        self, kind: PoolKind, speakers: int, segment_seconds: float, limit: float
    ) -> Level:
        await self._level(speakers, segment_seconds, decoding=kind == "pd_worker")
        found = level_of(speakers, self._reports[kind])
        self._progress.level_done()
        self._moved(self._progress)
        self._told(
            f"{kind}, segments of {segment_seconds:g} s: {speakers} speakers take "
            f"{found.response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms; {self._progress}"
        )
        return found

    async def _level(self, speakers: int, segment_seconds: float, *, decoding: bool) -> None:
        """Run so many speakers, and keep the reports made after they have settled."""
        own, *others = parts(speakers, segment_seconds, decoding, os.cpu_count() or 1)
        async with self._speaking(own, others) as tasks:
            await _undisturbed(asyncio.sleep(self._settle_seconds), tasks)
            self._reports.clear()
            await _undisturbed(asyncio.sleep(self._level_seconds), tasks)

    @asynccontextmanager
    async def _speaking(
        self, own: Part, others: list[Part]
    ) -> AsyncIterator[list[asyncio.Task[None]]]:
        """Yield tasks that end only if a session fails."""
        helpers = await self._needed(len(others))
        for helper, part in zip(helpers, others, strict=True):
            await helper.begin(part)
        tasks = self._cast.start(own)
        tasks += [asyncio.create_task(helper.fails()) for helper in helpers]
        try:
            yield tasks
        finally:
            await cancelled(tasks)
            for helper in helpers:
                await helper.begin(Part(own.segment_seconds, own.decoding, 0, 0))

    async def _needed(self, count: int) -> list[Helper]:
        while len(self._helpers) < count:
            self._helpers.append(Helper(self._stage))
            await self._helpers[-1].start()
        return self._helpers[:count]


async def _undisturbed(pause: Awaitable[None], tasks: list[asyncio.Task[None]]) -> None:
    """Await the pause; raise the error of a task that fails meanwhile."""
    waiting = asyncio.ensure_future(pause)
    try:
        done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in itertools.chain(done):
            task.result()
    finally:
        await cancelled([waiting])
