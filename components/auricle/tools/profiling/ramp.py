"""Increases the number of speakers until the workers of one kind are saturated."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from multiprocessing.connection import Connection

from auricle.core.aio import cancelled, with_timeout
from auricle.core.errors import AuricleError
from auricle.dynamo import Runtime
from auricle.load.pools import REQUIRED_POOLS
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.tools.load_generation.pacing import undisturbed
from auricle.tools.load_generation.speakers import LoadInput, SpeakerGroup, SpeakerPools
from auricle.tools.profiling.levels import (
    Level,
    Progress,
    beyond,
    doubled,
    level_of,
    without_request_lines,
)

# A frontend and a processor use a core for 64 to 120 sessions; a speaker only does the processor's
# part.
_MOST_PER_PROCESS = 96
# Twice the speakers bring a worker twice the requests, unless another pool is full.
_GROWTH = 1.2
_ANSWER_SECONDS = 90.0
_END_SECONDS = 5.0
_BEGUN = ""  # any other answer is an error message
_ENDED = "a process with speakers has ended"


def divided(
    speakers: int, segment_seconds: float, decoding: bool, cores: int
) -> list[SpeakerGroup]:
    """Divide speakers between at most half as many processes as cores."""
    processes = min(ceil(speakers / _MOST_PER_PROCESS), max(1, cores // 2))
    found, first = [], 0
    for number in range(processes):
        count = speakers // processes + (number < speakers % processes)
        found.append(SpeakerGroup(segment_seconds, decoding, first, count))
        first += count
    return found


class Helper:
    """A process that runs one group of speakers after another. Use it on one event loop."""

    def __init__(self, source: LoadInput) -> None:
        # Not a fork of this process, which has threads.
        context = multiprocessing.get_context("spawn")
        self._line, self._theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(source, self._theirs), daemon=True)
        self._answers: asyncio.Queue[str] = asyncio.Queue()  # at most one of each speaker

    async def start(self) -> None:
        """Start the process. Raises AuricleError if it fails, or is not ready in time."""
        await asyncio.to_thread(self._process.start)
        self._theirs.close()
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._receive)
        await self._begun()

    def _receive(self) -> None:
        try:
            self._answers.put_nowait(self._line.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._answers.put_nowait(_ENDED)

    async def begin(self, group: SpeakerGroup) -> None:
        """Replace the group of speakers that runs."""
        while not self._answers.empty():
            self._answers.get_nowait()  # of the previous group, after it was measured
        try:
            self._line.send(group)
        except OSError:
            raise AuricleError(_ENDED) from None
        await self._begun()

    async def _begun(self) -> None:
        answer = await with_timeout(_ANSWER_SECONDS, self._answers.get(), "a process with speakers")
        if answer != _BEGUN:
            raise AuricleError(answer)

    async def fails(self) -> None:
        """Wait until a session fails. Raises AuricleError then."""
        raise AuricleError(await self._answers.get())

    async def close(self) -> None:
        """End the process."""
        asyncio.get_running_loop().remove_reader(self._line.fileno())
        with suppress(OSError):
            self._line.send(None)
        if self._process.pid is not None:  # it was started
            await asyncio.to_thread(self._process.join, _END_SECONDS)
            self._process.kill()
        self._line.close()


def _main(source: LoadInput, line: Connection) -> None:
    os.environ.setdefault("DYN_LOG", "error")
    with without_request_lines():
        asyncio.run(_speak(source, line))


async def _speak(source: LoadInput, line: Connection) -> None:
    runtime = Runtime(source.settings)
    speaking: list[asyncio.Task[None]] = []
    try:
        speakers = SpeakerPools(runtime, source)
        await speakers.ready()
        line.send(_BEGUN)
        while (group := await asyncio.to_thread(_next, line)) is not None:
            await cancelled(speaking)
            speaking = speakers.start(group)
            for task in speaking:
                task.add_done_callback(partial(_report, line))
            line.send(_BEGUN)
    finally:
        await cancelled(speaking)
        runtime.close()


def _next(line: Connection) -> SpeakerGroup | None:
    """Return the next group; None at the end, or if the parent process has ended."""
    try:
        group: SpeakerGroup | None = line.recv()
    except EOFError:
        return None
    return group


def _report(line: Connection, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        line.send(str(error) or type(error).__name__)


_MOST_SPEAKERS = 4096
_LEVEL_SECONDS = 6.0


class Ramp:
    """Measures levels of load on a graph with one encode worker and the PD workers of a device."""

    def __init__(
        self,
        runtime: Runtime,
        source: LoadInput,
        log: Callable[[str], None],
        moved: Callable[[Progress], None],
        ramps: int,
    ) -> None:
        """`log` receives a line for each level of all `ramps`, `moved` the progress."""
        self._source = source
        self._log = log
        self._moved = moved
        self._speakers = SpeakerPools(runtime, source)
        self._helpers: list[Helper] = []
        self._reports: defaultdict[PoolKind, list[WorkerLoad]] = defaultdict(list)
        for pool in REQUIRED_POOLS:
            runtime.subscribe(pool.kind, LOAD_TOPIC, WorkerLoad, self._store)
        # Long enough for a percentile, and for each speaker to begin a segment or two.
        interval = source.settings.load_report_seconds
        self._settle_seconds = 3 * interval
        self._level_seconds = max(_LEVEL_SECONDS, 4 * interval)
        self._progress = Progress(ramps, self._settle_seconds + self._level_seconds)

    def _store(self, load: WorkerLoad) -> None:
        self._reports[load.kind].append(load)

    async def ready(self) -> None:
        """Wait until all workers can be called. Raises DeadlineExceeded."""
        await self._speakers.ready()
        self._log(f"the workers are ready; {self._progress}")
        self._moved(self._progress)

    async def close(self) -> None:
        """End the processes that were started for more speakers."""
        for helper in self._helpers:
            await helper.close()

    async def alone(self, segment_seconds: float) -> dict[PoolKind, float]:
        """Return each pool's 95th percentile response time with a single speaker, in seconds."""
        await self._level(1, segment_seconds, decoding=True)
        found = {kind: level_of(1, reports) for kind, reports in self._reports.items()}
        times = {kind: level.response_seconds for kind, level in found.items()}
        shown = ", ".join(f"{kind} {1000 * seconds:.0f} ms" for kind, seconds in times.items())
        self._log(f"one speaker alone: {shown}")
        return times

    async def levels(self, kind: PoolKind, segment_seconds: float, limit: float) -> list[Level]:
        """Measure levels, doubling the speakers until one exceeds `limit` (seconds).

        Then one more level is measured between the last two. If other workers cannot bring these
        more requests, no level exceeds it. Raises AuricleError if no number of speakers saturates
        any workers, or if a session fails.
        """
        levels = await doubled(
            lambda speakers: self._measured(kind, speakers, segment_seconds, limit),
            limit,
            most=_MOST_SPEAKERS,
            load=f"speakers did not saturate one {kind}",
            growth=_GROWTH,
        )
        if not beyond(levels[-1], limit):
            self._log(f"more speakers bring one {kind} no more requests: other workers are full")
        elif len(levels) > 1:
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
        self._log(
            f"{kind}, segments of {segment_seconds:g} s: {speakers} speakers take "
            f"{found.response_seconds * 1000:.0f} ms of {limit * 1000:.0f} ms; {self._progress}"
        )
        return found

    async def _level(self, speakers: int, segment_seconds: float, *, decoding: bool) -> None:
        """Run `speakers`, and keep the reports made after they have settled."""
        own, *others = divided(speakers, segment_seconds, decoding, os.cpu_count() or 1)
        async with self._speaking(own, others) as tasks:
            await undisturbed(self._settle_seconds, tasks)
            self._reports.clear()
            await undisturbed(self._level_seconds, tasks)

    @asynccontextmanager
    async def _speaking(
        self, own: SpeakerGroup, others: list[SpeakerGroup]
    ) -> AsyncIterator[list[asyncio.Task[None]]]:
        """Run these groups; yield tasks that end only if a session fails."""
        helpers = await self._needed(len(others))
        for helper, group in zip(helpers, others, strict=True):
            await helper.begin(group)
        tasks = self._speakers.start(own)
        tasks += [asyncio.create_task(helper.fails()) for helper in helpers]
        try:
            yield tasks
        finally:
            await cancelled(tasks)
            for helper in helpers:
                await helper.begin(SpeakerGroup(own.segment_seconds, own.decoding, 0, 0))

    async def _needed(self, count: int) -> list[Helper]:
        while len(self._helpers) < count:
            self._helpers.append(Helper(self._source))
            await self._helpers[-1].start()
        return self._helpers[:count]
