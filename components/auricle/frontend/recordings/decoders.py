"""The pool of decoding processes, seen from the frontend's event loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeVar

import msgspec

from auricle.errors import AudioTooLong, AuricleError, UndecodableAudio, from_code
from auricle.frontend.recordings.decoding import (
    Decoded,
    DecodingFailed,
    DecodingJob,
    Output,
    decode_to,
)
from auricle.frontend.recordings.parts import Part
from auricle.tasks import within

_DECODER = msgspec.msgpack.Decoder(Output)
_PRELOAD = ["auricle.frontend.recordings.decoding"]
# Hours of silence give no part for minutes at low priority; a process that is stuck
# without using CPU is not caught by its own limit.
_PART_SECONDS = 3600.0
T = TypeVar("T")


class Decoders(Protocol):
    """Turns a job into parts, then `Decoded`."""

    def parts(self, job: DecodingJob) -> AsyncGenerator[Part | Decoded, None]:
        """Close it early and the work stops; raises AuricleError if the file is unusable."""
        ...


class DecodingProcesses:
    """At most `limit` recordings are being decoded; others wait in order of arrival.

    Processes are forked from a small server that has everything imported: a few
    milliseconds each, and nothing of the frontend's is in them.
    """

    def __init__(self, limit: int) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._room = asyncio.Semaphore(limit)
        # Each waits for one process's next part, asleep in `recv`.
        self._threads = ThreadPoolExecutor(limit, "recording")

    async def start(self) -> None:
        """Start the server that processes are forked from, so no request waits for it."""
        async with self._process(_nothing) as (process, _):
            await within(60.0, self._in_thread(process.join), "the decoding processes' server")

    def close(self) -> None:
        """No more jobs will come."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def parts(self, job: DecodingJob) -> AsyncGenerator[Part | Decoded, None]:
        """See `Decoders`."""
        async with self._room, self._process(decode_to, job) as (process, connection):
            while True:
                try:
                    receiving = self._in_thread(connection.recv_bytes)
                    output = _DECODER.decode(await within(_PART_SECONDS, receiving, "decoding"))
                except EOFError:
                    await self._in_thread(process.join)
                    raise _died(job, process.exitcode) from None
                if isinstance(output, DecodingFailed):
                    raise from_code(output.code, output.message)
                yield output
                if isinstance(output, Decoded):
                    return

    @asynccontextmanager
    async def _process(
        self, target: Callable[..., None], *arguments: object
    ) -> AsyncGenerator[tuple[BaseProcess, Connection], None]:
        """A running process and this side of its pipe; killed at the end if it still runs."""
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=target, args=(there, *arguments), daemon=True)
        try:
            await self._in_thread(process.start)
            there.close()
            yield process, here
        finally:
            if process.pid is not None:
                process.kill()
                await asyncio.shield(self._in_thread(process.join))
            here.close()

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, *arguments)


def _nothing(connection: Connection) -> None:
    """Starting is all it is for."""
    connection.close()


def _died(job: DecodingJob, exit_code: int | None) -> AuricleError:
    """Why there was no result: the recording's doing in all cases we know."""
    if exit_code in (-signal.SIGXCPU, -signal.SIGKILL):
        return AudioTooLong(
            f"decoding {job.name} took more than the {job.max_cpu_seconds} s of CPU it may; "
            "send it in parts or in another format"
        )
    return UndecodableAudio(
        f"{job.name} is damaged: its decoder ended with {exit_code}; "
        "convert it to WAV or FLAC and try again"
    )
