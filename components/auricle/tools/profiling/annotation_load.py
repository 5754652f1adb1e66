"""Measures what workers of pools beside the path carry, in seconds of speech per second."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
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
from auricle.tools.profiling.levels import Level, beyond, knee, level_of
from auricle.tools.profiling.synthetic_speakers import Stage, random_part

# What comes so long after a segment's final is late. Text does not wait for it.
_LATE_SECONDS = 1.0
# A machine on which one segment alone takes longer than half of that carries what it can.
_TIMES_ALONE = 2.0
_MOST_AT_ONCE = 256
_SETTLE_REPORTS, _LEVEL_SECONDS = 2, 6.0
_READY_SECONDS = 60.0
# What is to be done about a pool that takes twice as long as before for the same.
_TOO_SLOW = "measure on a machine that does nothing else, or a faster one"
SEGMENT_SECONDS = 8.0  # of those that are asked for, where their length may be chosen
Told = Callable[[float], None]


class Asking(Protocol):
    """What sessions ask of pools beside the path: of each of `kinds`, in this order."""

    kinds: tuple[PoolKind, ...]

    async def ready(self, seconds: float) -> None:
        """Wait until the pools can be called. Raises DeadlineExceeded after `seconds`."""
        ...

    def ask(self, kind: PoolKind | None, told: Told) -> Coroutine[None, None, None]:
        """Have one segment after the other worked on, until cancelled: by the pool of that kind
        as far as possible, without one by all of them.

        `told` is given the seconds of speech that were answered. Raises AuricleError.
        """
        ...


class BesideRamp:
    """Has a graph asked for one thing, such as words, more and more at a time."""

    def __init__(
        self, runtime: Runtime, report_seconds: float, asking: Asking, told: Callable[[str], None]
    ) -> None:
        """`told` is given a line for each level; workers report every `report_seconds`."""
        self._asking = asking
        self._told = told
        self._said = 0.0  # seconds of speech that were answered
        self._interval = report_seconds
        self._reports: defaultdict[PoolKind, list[WorkerLoad]] = defaultdict(list)
        for kind in asking.kinds:
            runtime.subscribe(kind, LOAD_TOPIC, WorkerLoad, self._heard)

    def _heard(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    def _answered(self, seconds: float) -> None:
        self._said += seconds

    async def carried(self) -> dict[PoolKind, tuple[float, float]]:
        """Return what each pool carries, in seconds of speech per second, and within which
        response time. Raises AuricleError if one cannot be measured."""
        await self._asking.ready(_READY_SECONDS)
        alone = await self._alone()
        together = sum(alone.values())
        found: dict[PoolKind, tuple[float, float]] = {}
        for kind in self._asking.kinds:
            # Divides the time between the pools in proportion to their unloaded times.
            limit = max(_LATE_SECONDS, _TIMES_ALONE * together) * alone[kind] / together
            at = knee(await self._levels(kind, limit), limit, _TOO_SLOW)
            self._told(f"{kind}: {at:.1f} s of speech a second, within {limit * 1000:.0f} ms")
            found[kind] = at, limit
        return found

    async def _alone(self) -> Mapping[PoolKind, float]:
        """Return response times, none of which is 0."""
        await self._working(None, 1)
        kinds = self._asking.kinds
        alone = {kind: level_of(1, self._reports[kind]).response_seconds for kind in kinds}
        _all_answer([kind for kind, seconds in alone.items() if not seconds])
        return alone

    async def _levels(self, kind: PoolKind, limit: float) -> list[Level]:
        levels: list[Level] = []
        at_once = 1
        while not levels or not beyond(levels[-1], limit):
            if at_once > _MOST_AT_ONCE:
                raise AuricleError(
                    f"{_MOST_AT_ONCE} segments at a time did not saturate one {kind}"
                )
            levels.append(await self._level(kind, at_once))
            self._told(
                f"{kind}: {at_once} segments at a time, {levels[-1].speakers:.1f} s of speech a "
                f"second, take {levels[-1].response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms"
            )
            at_once *= 2
        return levels

    async def _level(self, kind: PoolKind, at_once: int) -> Level:
        rate = await self._working(kind, at_once)
        found = level_of(at_once, self._reports[kind])
        return Level(rate, found.work, found.response_seconds, found.refused)

    async def _working(self, kind: PoolKind | None, at_once: int) -> float:
        """Keep so many segments in work; return the seconds of speech answered per second.

        A level lasts until each worker that is asked has reported a request, too, so that one
        request may take longer than a level. Raises AuricleError for those that have not after
        `_READY_SECONDS`, though they report.
        """
        kinds = self._asking.kinds if kind is None else (kind,)
        now = asyncio.get_running_loop().time
        asking = (self._asking.ask(kind, self._answered) for _ in range(at_once))
        tasks = [asyncio.create_task(one) for one in asking]
        try:
            await _undisturbed(_SETTLE_REPORTS * self._interval, tasks)
            self._reports.clear()
            self._said, began = 0.0, now()
            await _undisturbed(_LEVEL_SECONDS, tasks)
            while not all(map(self._is_measured, kinds)) and now() - began < _READY_SECONDS:
                await _undisturbed(self._interval, tasks)
            _all_answer([one for one in kinds if self._reports[one] and not self._is_measured(one)])
            return self._said / (now() - began)
        finally:
            await cancelled(tasks)

    def _is_measured(self, kind: PoolKind) -> bool:
        reports = self._reports[kind]
        answered = self._said > 0 and any(one.requests_per_second > 0 for one in reports)
        return answered or any(one.refused_per_second > 0 for one in reports)


def _all_answer(silent: list[PoolKind]) -> None:
    if silent:
        raise AuricleError(f"{' and '.join(silent)} answered nothing within {_READY_SECONDS:g} s")


def costs_of(carried: float) -> dict[str, float]:
    """Return the costs of a profile: a second of speech per second, as a share of a worker."""
    (unit,) = ASKED_WORK
    return {unit: 1.0 / carried}


async def _undisturbed(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    """Wait; raise the error of a task that fails meanwhile."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


# Has segments diarized, so that the diarize pool is measured.


class DiarizeAsking:
    """Asks for the speakers of segments; see `beside.Asking`."""

    kinds: tuple[PoolKind, ...] = ("diarize_worker",)

    def __init__(self, runtime: Runtime, stage: Stage) -> None:
        settings = stage.settings
        self._stage = stage
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._patience = settings.speakers_deadline_seconds
        client = runtime.client("diarize_worker", "generate")
        self._pool = Pool(client, self._patience, settings.attempts)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def ask(self, _kind: PoolKind | None, told: Told) -> None:
        """Have the segments of a session diarized, each with the voices known before it."""
        name, state = f"profile-{next(self._names)}", b""
        samples = int(SEGMENT_SECONDS * SAMPLE_RATE)
        while True:
            pcm = random_part(self._stage.recordings, samples, self._chance)
            most = self._stage.settings.max_speakers
            request = DiarizeRequest(name, name, pcm.tobytes(), state, most)
            reply = await self._pool.ask(request, DiarizeReply, self._patience, "diarizing")
            state = reply.state
            told(SEGMENT_SECONDS)
