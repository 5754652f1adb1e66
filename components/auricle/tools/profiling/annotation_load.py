"""Measures the capacity of annotation workers, in seconds of speech per second."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError
from auricle.dynamo import Runtime
from auricle.load.pools import ASKED_WORK
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.processor.pools import Pool
from auricle.protocol.annotation import DiarizeReply, DiarizeRequest
from auricle.tools.load_generation.pacing import undisturbed
from auricle.tools.load_generation.speakers import LoadInput, random_part
from auricle.tools.profiling.levels import Level, doubled, knee, level_of

# The response time within which capacity is measured. Text does not wait for annotations.
_LATE_SECONDS = 1.0
# On a slower machine it is a multiple of the time of one segment alone.
_TIMES_ALONE = 2.0
_MOST_AT_ONCE = 256
_SETTLE_REPORTS, _LEVEL_SECONDS = 2, 6.0
_READY_SECONDS = 60.0
# The advice for a pool whose response time doubles at the same load.
_TOO_SLOW = "measure on a machine that does nothing else, or a faster one"
SEGMENT_SECONDS = 8.0  # of requests, where their length is free
Answered = Callable[[float], None]


class Workload(Protocol):
    """The requests of sessions to annotation pools, to each of `kinds`, in this order."""

    kinds: tuple[PoolKind, ...]

    async def ready(self, seconds: float) -> None:
        """Wait until the pools can be called. Raises DeadlineExceeded after `seconds`."""
        ...

    def run(self, kind: PoolKind | None, answered: Answered) -> Coroutine[None, None, None]:
        """Send the requests of one segment after another until cancelled: to the pool of this kind
        as far as possible, or to all pools without one.

        `answered` receives the seconds of speech of each answer. Raises AuricleError.
        """
        ...


class AnnotationRamp:
    """Increases one workload, such as words, until its pools are saturated."""

    def __init__(
        self,
        runtime: Runtime,
        report_seconds: float,
        workload: Workload,
        log: Callable[[str], None],
    ) -> None:
        """`log` receives a line for each level; workers report every `report_seconds`."""
        self._workload = workload
        self._log = log
        self._speech_seconds = 0.0  # answered
        self._interval = report_seconds
        self._reports: defaultdict[PoolKind, list[WorkerLoad]] = defaultdict(list)
        for kind in workload.kinds:
            runtime.subscribe(kind, LOAD_TOPIC, WorkerLoad, self._store)

    def _store(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    def _answered(self, seconds: float) -> None:
        self._speech_seconds += seconds

    async def carried(self) -> dict[PoolKind, tuple[float, float]]:
        """Return each pool's capacity, in seconds of speech per second, and its limit of the
        response time. Raises AuricleError if one cannot be measured."""
        await self._workload.ready(_READY_SECONDS)
        alone = await self._alone()
        together = sum(alone.values())
        found: dict[PoolKind, tuple[float, float]] = {}
        for kind in self._workload.kinds:
            # Divides the time between the pools in proportion to their unloaded times.
            limit = max(_LATE_SECONDS, _TIMES_ALONE * together) * alone[kind] / together
            at = knee(await self._levels(kind, limit), limit, _TOO_SLOW)
            self._log(f"{kind}: {at:.1f} s of speech a second, within {limit * 1000:.0f} ms")
            found[kind] = at, limit
        return found

    async def _alone(self) -> Mapping[PoolKind, float]:
        """Return the response times of each pool; all are above 0."""
        await self._working(None, 1)
        kinds = self._workload.kinds
        alone = {kind: level_of(1, self._reports[kind]).response_seconds for kind in kinds}
        _all_answer([kind for kind, seconds in alone.items() if not seconds])
        return alone

    async def _levels(self, kind: PoolKind, limit: float) -> list[Level]:
        async def measure(at_once: int) -> Level:
            level = await self._level(kind, at_once)
            self._log(
                f"{kind}: {at_once} segments at a time, {level.speakers:.1f} s of speech a "
                f"second, take {level.response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms"
            )
            return level

        load = f"segments at a time did not saturate one {kind}"
        return await doubled(measure, limit, most=_MOST_AT_ONCE, load=load)

    async def _level(self, kind: PoolKind, at_once: int) -> Level:
        rate = await self._working(kind, at_once)
        found = level_of(at_once, self._reports[kind])
        return replace(found, speakers=rate)

    async def _working(self, kind: PoolKind | None, at_once: int) -> float:
        """Keep `at_once` segments in progress; return the seconds of speech answered per second.

        A level lasts at least until each called worker has reported a request, because one request
        may take longer than a level. Raises AuricleError for workers that have reported none after
        `_READY_SECONDS`.
        """
        kinds = self._workload.kinds if kind is None else (kind,)
        now = asyncio.get_running_loop().time
        running = (self._workload.run(kind, self._answered) for _ in range(at_once))
        tasks = [asyncio.create_task(one) for one in running]
        try:
            await undisturbed(_SETTLE_REPORTS * self._interval, tasks)
            self._reports.clear()
            self._speech_seconds, began = 0.0, now()
            await undisturbed(_LEVEL_SECONDS, tasks)
            while not all(map(self._is_measured, kinds)) and now() - began < _READY_SECONDS:
                await undisturbed(self._interval, tasks)
            _all_answer([one for one in kinds if self._reports[one] and not self._is_measured(one)])
            return self._speech_seconds / (now() - began)
        finally:
            await cancelled(tasks)

    def _is_measured(self, kind: PoolKind) -> bool:
        reports = self._reports[kind]
        answered = self._speech_seconds > 0 and any(one.requests_per_second > 0 for one in reports)
        return answered or any(one.refused_per_second > 0 for one in reports)


def _all_answer(silent: list[PoolKind]) -> None:
    if silent:
        raise AuricleError(f"{' and '.join(silent)} answered nothing within {_READY_SECONDS:g} s")


def costs_of(carried: float) -> dict[str, float]:
    """Return the costs of a profile: the share of a worker for one second of speech per second."""
    (unit,) = ASKED_WORK
    return {unit: 1.0 / carried}


class DiarizeWorkload:
    """Requests the speakers of segments."""

    kinds: tuple[PoolKind, ...] = ("diarize_worker",)

    def __init__(self, runtime: Runtime, source: LoadInput) -> None:
        settings = source.settings
        self._source = source
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._deadline_seconds = settings.speakers_deadline_seconds
        client = runtime.client("diarize_worker", "generate")
        self._pool = Pool(client, self._deadline_seconds, settings.attempts)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def run(self, _kind: PoolKind | None, answered: Answered) -> None:
        """Have the segments of a session diarized, each with the voices known before it."""
        name, state = f"profile-{next(self._names)}", b""
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        while True:
            pcm = random_part(self._source.recordings, samples, self._chance)
            most = self._source.settings.max_speakers
            request = DiarizeRequest(name, name, pcm.tobytes(), state, most)
            reply = await self._pool.ask(request, DiarizeReply, self._deadline_seconds, "diarizing")
            state = reply.state
            answered(SEGMENT_SECONDS)
