"""Further processes with speakers: a GPU's worker takes more than one process can simulate."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from contextlib import suppress
from functools import partial
from math import ceil
from multiprocessing.connection import Connection

from auricle.errors import AuricleError
from auricle.profiling.cast import Cast, Part, Stage
from auricle.profiling.progress import without_request_lines
from auricle.runtime import Runtime
from auricle.tasks import cancelled, within

# A frontend and a processor take a core for 64 to 120 sessions; a speaker has the processor's part.
_MOST_SPEAKERS = 96
_ANSWER_SECONDS = 90.0
_END_SECONDS = 5.0
_BEGUN = ""  # any other answer says what failed
_ENDED = "a process with speakers has ended"


def parts(speakers: int, segment_seconds: float, decoding: bool, cores: int) -> list[Part]:
    """Divide speakers between processes, which have at most half of the cores."""
    processes = min(ceil(speakers / _MOST_SPEAKERS), max(1, cores // 2))
    found, first = [], 0
    for number in range(processes):
        count = speakers // processes + (number < speakers % processes)
        found.append(Part(segment_seconds, decoding, first, count))
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

    async def begin(self, part: Part) -> None:
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


def _next(line: Connection) -> Part | None:
    """Return the next part; None if there is none, or if nobody is left who would give one."""
    try:
        part: Part | None = line.recv()
    except EOFError:
        return None
    return part


def _tell(line: Connection, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        line.send(str(error) or type(error).__name__)
