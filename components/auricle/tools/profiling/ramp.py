"""Increases the number of speakers on the workers of one kind until they are saturated."""

from __future__ import annotations

import asyncio
import itertools
import math
import multiprocessing
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from multiprocessing.connection import Connection

from auricle.core.aio import cancelled, within
from auricle.core.errors import AuricleError
from auricle.dynamo import Runtime
from auricle.load.pools import REQUIRED_POOLS
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.tools.profiling.levels import Level, Progress, beyond, level_of, without_request_lines
from auricle.tools.profiling.synthetic_speakers import Cast, SpeakerGroup, Stage

# Further processes with speakers: a GPU's worker takes more than one process can simulate.

# A frontend and a processor take a core for 64 to 120 sessions; a speaker has the processor's part.
_HELPERS_MOST_SPEAKERS = 96
_ANSWER_SECONDS = 90.0
_END_SECONDS = 5.0
_BEGUN = ""  # any other answer says what failed
_ENDED = "a process with speakers has ended"


def parts(speakers: int, segment_seconds: float, decoding: bool, cores: int) -> list[SpeakerGroup]:
    """Divide speakers between processes, which have at most half of the cores."""
    processes = min(ceil(speakers / _HELPERS_MOST_SPEAKERS), max(1, cores // 2))
    found, first = [], 0
    for number in range(processes):
        count = speakers // processes + (number < speakers % processes)
        found.append(SpeakerGroup(segment_seconds, decoding, first, count))
        first += count
    return found


class Helper:
    """A process whose speakers do the parts that it is given. Use it on one event loop."""

    def __init__(self, stage: Stage) -> None:
        # Not a copy of this process, which has threads.
        context = multiprocessing.get_context("spawn")
        self._line, self._theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(stage, self._theirs), daemon=True)
        self._heard: asyncio.Queue[str] = asyncio.Queue()  # at most one message of each speaker

    async def start(self) -> None:
        """Start the process. Raises AuricleError if it fails, or is not ready in time."""
        await asyncio.to_thread(self._process.start)
        self._theirs.close()
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._hear)
        await self._begun()

    def _hear(self) -> None:
        try:
            self._heard.put_nowait(self._line.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._heard.put_nowait(_ENDED)

    async def begin(self, part: SpeakerGroup) -> None:
        """Have the process do this part, and no longer the one before."""
        while not self._heard.empty():
            self._heard.get_nowait()  # of the part before, after it was measured
        try:
            self._line.send(part)
        except OSError:
            raise AuricleError(_ENDED) from None
        await self._begun()

    async def _begun(self) -> None:
        said = await within(_ANSWER_SECONDS, self._heard.get(), "a process with speakers")
        if said != _BEGUN:
            raise AuricleError(said)

    async def fails(self) -> None:
        """Wait for ever, unless a session fails: then raise AuricleError."""
        raise AuricleError(await self._heard.get())

    async def close(self) -> None:
        """End the process."""
        asyncio.get_running_loop().remove_reader(self._line.fileno())
        with suppress(OSError):
            self._line.send(None)
        if self._process.pid is not None:  # else it could not be started
            await asyncio.to_thread(self._process.join, _END_SECONDS)
            self._process.kill()
        self._line.close()


def _main(stage: Stage, line: Connection) -> None:
    os.environ.setdefault("DYN_LOG", "error")
    with without_request_lines():
        asyncio.run(_speak(stage, line))


async def _speak(stage: Stage, line: Connection) -> None:
    runtime = Runtime(stage.settings)
    speaking: list[asyncio.Task[None]] = []
    try:
        cast = Cast(runtime, stage)
        await cast.ready()
        line.send(_BEGUN)
        while (part := await asyncio.to_thread(_next, line)) is not None:
            await cancelled(speaking)
            speaking = cast.start(part)
            for task in speaking:
                task.add_done_callback(partial(_tell, line))
            line.send(_BEGUN)
    finally:
        await cancelled(speaking)
        runtime.close()


def _next(line: Connection) -> SpeakerGroup | None:
    """Return the next part; None if there is none, or if nobody is left who would give one."""
    try:
        part: SpeakerGroup | None = line.recv()
    except EOFError:
        return None
    return part


def _tell(line: Connection, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        line.send(str(error) or type(error).__name__)


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
        for pool in REQUIRED_POOLS:
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
        self, own: SpeakerGroup, others: list[SpeakerGroup]
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
                await helper.begin(SpeakerGroup(own.segment_seconds, own.decoding, 0, 0))

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
