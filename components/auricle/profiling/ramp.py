"""Increases the number of speakers on one worker until it is saturated."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable

from auricle.errors import AuricleError
from auricle.load.reports import LOAD_TOPIC, WorkerKind, WorkerLoad
from auricle.messages import DecodeReply, DecodeRequest
from auricle.processor.driver import CheckpointView
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.profiling.levels import Level, beyond, level_of
from auricle.profiling.progress import Progress
from auricle.profiling.speakers import Speaker, Speech
from auricle.runtime import Runtime
from auricle.settings import ProcessorSettings
from auricle.tasks import cancelled

_READY_SECONDS = 60.0
_MOST_SPEAKERS = 4096
_LEVEL_SECONDS = 6.0


class _NoPdPool(PdPool):
    """Answers every decode at once and empty, so that only the encode worker is loaded."""

    async def decode(self, placement: Placement, request: DecodeRequest) -> DecodeReply:
        return DecodeReply((), "stop", 0, 0, 0)


class Ramp:
    """Measures levels of load on a graph with one encode worker and one PD worker."""

    def __init__(
        self,
        runtime: Runtime,
        settings: ProcessorSettings,
        view: CheckpointView,
        told: Callable[[str], None],
        ramps: int,
    ) -> None:
        """`told` is given a line for each of the levels of so many `ramps`."""
        self._settings = settings
        self._view = view
        self._told = told
        encode = runtime.client("encode_worker", "generate")
        pd = runtime.client("pd_worker", "generate")
        self._encode = EncodePool(encode, settings.encode_deadline_seconds, settings.attempts)
        self._pd = PdPool(pd, settings.decode_deadline_seconds, settings.attempts)
        self._no_pd = _NoPdPool(pd, settings.decode_deadline_seconds, settings.attempts)
        self._reports: defaultdict[WorkerKind, list[WorkerLoad]] = defaultdict(list)
        for kind in ("encode_worker", "pd_worker"):
            runtime.subscribe(kind, LOAD_TOPIC, WorkerLoad, self._heard)
        # Long enough for a percentile, and for every speaker to begin a segment or two.
        self._settle_seconds = 3 * settings.load_report_seconds
        self._level_seconds = max(_LEVEL_SECONDS, 4 * settings.load_report_seconds)
        self._progress = Progress(ramps, self._settle_seconds + self._level_seconds)

    def _heard(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    async def ready(self) -> None:
        """Wait until both workers can be called. Raises DeadlineExceeded."""
        await self._encode.ready(_READY_SECONDS)
        await self._pd.ready(_READY_SECONDS)

    async def alone(self, speech: Speech) -> dict[WorkerKind, float]:
        """Return each pool's 95th percentile response time with a single speaker, in seconds."""
        await self._level(1, speech, self._pd)
        found = {kind: level_of(1, reports) for kind, reports in self._reports.items()}
        return {kind: level.response_seconds for kind, level in found.items()}

    async def levels(self, kind: WorkerKind, speech: Speech, limit: float) -> list[Level]:
        """Measure levels, doubling the speakers until one exceeds `limit` (seconds).

        One more level is measured between the last two. Raises AuricleError if no number of
        speakers saturates the worker, or if a session fails.
        """
        levels: list[Level] = []
        speakers = 1
        while not levels or not beyond(levels[-1], limit):
            if speakers > _MOST_SPEAKERS:
                raise AuricleError(f"{_MOST_SPEAKERS} speakers did not saturate one {kind}")
            levels.append(await self._measured(kind, speakers, speech, limit))
            speakers *= 2
        if len(levels) > 1:
            between = round(math.sqrt(levels[-2].speakers * levels[-1].speakers))
            levels.append(await self._measured(kind, between, speech, limit))
        self._progress.ramp_done()
        return sorted(levels, key=lambda level: level.speakers)

    async def _measured(
        self, kind: WorkerKind, speakers: int, speech: Speech, limit: float
    ) -> Level:
        pool = self._no_pd if kind == "encode_worker" else self._pd
        await self._level(speakers, speech, pool)
        found = level_of(speakers, self._reports[kind])
        self._progress.level_done()
        self._told(
            f"{kind}, segments of {speech.segment_seconds:g} s: {speakers} speakers take "
            f"{found.response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms; {self._progress}"
        )
        return found

    async def _level(self, speakers: int, speech: Speech, pool: PdPool) -> None:
        """Run so many speakers, and keep the reports made after they have settled."""
        tasks = [asyncio.create_task(self._speaker(speech, pool, n).run()) for n in range(speakers)]
        try:
            await _undisturbed(asyncio.sleep(self._settle_seconds), tasks)
            self._reports.clear()
            await _undisturbed(asyncio.sleep(self._level_seconds), tasks)
        finally:
            await cancelled(tasks)

    def _speaker(self, speech: Speech, pool: PdPool, seed: int) -> Speaker:
        return Speaker(speech, self._settings, self._view, self._encode, pool, seed)


async def _undisturbed(pause: Awaitable[None], tasks: list[asyncio.Task[None]]) -> None:
    """Await the pause; raise the error of a task that fails meanwhile."""
    waiting = asyncio.ensure_future(pause)
    try:
        done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in itertools.chain(done):
            task.result()
    finally:
        await cancelled([waiting])
