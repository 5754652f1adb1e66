"""The pool of decoding processes, seen from the frontend's event loop."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.recording import RecordingLimits
from auricle.audio.segmentation import SegmentLimits
from auricle.config.settings import FrontendSettings
from auricle.core.aio import with_timeout
from auricle.core.errors import (
    AudioTooLong,
    AuricleError,
    DeadlineExceeded,
    SettingsError,
    TooCostly,
    UndecodableAudio,
    WorkerUnavailable,
    from_code,
)
from auricle.core.fair_slots import FairSlots
from auricle.frontend.recordings.decoding_process import (
    Confined,
    DecodingFailed,
    DecodingJob,
    EndOfRecording,
    Message,
    Output,
    Prepare,
    RecordingDecoder,
    work_in_process,
)
from auricle.frontend.recordings.parts import DecodedSamples, RecordingPart
from auricle.frontend.recordings.sandbox import ProcessLimits

log = logging.getLogger(__name__)

# Reads a decoding process's output, which is untrusted: its decoder may have been taken over.

_DECODER = msgspec.msgpack.Decoder(Message)
_SAMPLE_BYTES = 2
_OVERHEAD_BYTES = 4096  # of a message without its audio
_MAX_MESSAGE_CHARACTERS = 1_000
_MOST_WARNINGS = 32
_MOST_WARNING_CHARACTERS = 300
_REPORTED = {kind.code for kind in (AudioTooLong, TooCostly, UndecodableAudio)}


class BadOutput(Exception):
    """An invalid message from a decoding process."""


class DecodingOutput:
    """The messages of one process: each is checked against the job and those before it."""

    def __init__(self, job: DecodingJob) -> None:
        self._most_samples = int((job.recording.seconds + 1) * SAMPLE_RATE)
        self._most_bytes = job.segments.maximum * _SAMPLE_BYTES
        self._most_channels = 1 if job.channel is None else job.most_channels
        self._decoded = 0
        self._end = 0  # of the last part

    @property
    def max_message_bytes(self) -> int:
        return self._most_bytes + _OVERHEAD_BYTES

    def read(self, data: bytes) -> Confined | DecodingFailed | Output:
        """Decode and check a message. Raises BadOutput."""
        try:
            message: Message = _DECODER.decode(data)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadOutput(str(error)) from None
        if not self._possible(message):
            raise BadOutput(f"an impossible {type(message).__name__}")
        return message

    def _possible(self, message: Message) -> bool:
        match message:
            case RecordingPart(start=start, end=end, pcm=pcm, speech=speech):
                before, self._end = self._end, end
                whole = 0 < len(pcm) <= self._most_bytes and not len(pcm) % _SAMPLE_BYTES
                likely = 0.0 <= speech <= 1.0
                return whole and likely and before <= start < end <= self._most_samples
            case DecodedSamples(samples=samples):
                self._decoded += samples
                return samples >= 0 and self._decoded <= self._most_samples
            case EndOfRecording(samples=samples, channels=channels, warnings=warnings):
                whole = max(self._decoded, self._end) <= samples <= self._most_samples
                said = len(warnings) <= _MOST_WARNINGS and all(map(_is_warning, warnings))
                return whole and said and 1 <= channels <= self._most_channels
            case DecodingFailed(code=code):
                return code in _REPORTED
            case Confined():
                return True


def _is_warning(text: str) -> bool:
    """Whether a text can be sent as a warning, in a header too."""
    return len(text) <= _MOST_WARNING_CHARACTERS and text.isascii() and text.isprintable()


class PreparedProcess:
    """A decoding process that is started before there is a recording for it.

    Forking a process and loading its model takes longer than decoding a short recording.
    All methods may block; call them in a thread.
    """

    def __init__(self, context: ForkServerContext, prepare: Prepare) -> None:
        """Start the process. Raises OSError if that fails."""
        self.results, there = context.Pipe(duplex=False)
        self._jobs, waiting = context.Pipe(duplex=True)  # a socket: a pipe passes no descriptors
        with there, waiting:
            self._process: BaseProcess = context.Process(
                target=work_in_process, args=(there, waiting, prepare), daemon=True
            )
            self._process.start()

    def give(self, job: DecodingJob, path: Path) -> None:
        """Send the job and a read-only descriptor of the upload at `path`.

        Raises OSError if the process has ended.
        """
        upload = os.open(path, os.O_RDONLY)
        try:
            with self._jobs:
                self._jobs.send(job)
                reduction.send_handle(self._jobs, upload, self._process.pid)
        finally:
            os.close(upload)

    def exit_code(self, seconds: float) -> int | None:
        """Wait at most `seconds` for its end; a negative code is the signal that ended it."""
        self._process.join(seconds)
        return self._process.exitcode

    def end(self, seconds: float) -> bool:
        """Kill it; return whether it ends in that time."""
        self._process.kill()
        ended = self.exit_code(seconds) is not None
        self._jobs.close()
        self.results.close()
        return ended


_PRELOAD = ["auricle.frontend.recordings.decoding_process"]
_START_SECONDS = 60.0
_JOIN_SECONDS = 10.0
T = TypeVar("T")


class DecodingProcesses:
    """Decodes each recording in a process of its own, which has no access to anything else.

    At most `decoding_processes` run at a time, at most `decoding_processes_per_client` of them for
    one owner; owners take turns. Processes are forked from a small server that has imported
    everything and shares no state with the frontend. One idle process is kept in advance, so that
    a single recording starts at once.
    """

    def __init__(self, settings: FrontendSettings, prepare: Prepare = RecordingDecoder) -> None:
        limit = settings.decoding_processes
        self._settings = settings
        self._prepare = prepare
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._slots = FairSlots(
            limit, settings.most_decoding_processes_per_client, settings.max_recordings // 2
        )
        # Each thread blocks in `recv` until the next message of one process arrives; one more
        # starts the idle process.
        self._threads = ThreadPoolExecutor(limit + 1, "recording")
        self._waiting: asyncio.Future[PreparedProcess] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the server that processes are forked from, so that no request waits for it.

        If processes cannot have a seccomp filter here, logs a warning, or raises SettingsError
        if the filter is required. Raises DeadlineExceeded after 60 s.
        """
        job = _nothing_to_decode()
        async with self._process(job, Path(os.devnull)) as process:
            receiving = self._in_thread(process.results.recv_bytes)
            try:
                first = await with_timeout(_START_SECONDS, receiving, "the first decoding process")
            except EOFError:
                raise AuricleError("the first decoding process died") from None
        confined = DecodingOutput(job).read(first)
        if not isinstance(confined, Confined):
            raise AuricleError(f"the first decoding process failed: {confined}")
        if (reason := confined.without_seccomp) and self._settings.require_seccomp:
            raise SettingsError(f"Frontend.require_seccomp cannot be met: {reason}")
        if reason:
            log.warning(
                "recordings are decoded without a seccomp filter: %s; an upload that takes over "
                "a decoder could signal other processes of this user",
                reason,
            )

    async def close(self) -> None:
        """Stop the idle process and the threads; no job may follow."""
        self._closed = True
        if self._waiting is not None:
            await self._end(self._waiting)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def outputs(
        self, job: DecodingJob, path: Path, owner: str
    ) -> AsyncGenerator[Output, None]:
        """Yield the recording's parts, and `EndOfRecording` last. Closing it stops the work.

        `DecodedSamples` counts the audio decoded since the last one; it comes for silence too, and
        for recordings that fail later. `owner` shares processes fairly with other owners. Raises
        UndecodableAudio, AudioTooLong or TooCostly if the file cannot be used, Overloaded if
        too many recordings of the owner wait, and WorkerUnavailable if decoding was
        interrupted.
        """
        async with (
            self._slots.slot(owner),
            self._process(job, path) as process,
        ):
            expected = DecodingOutput(job)
            clock = _WallClock(self._settings.max_decoding_seconds)
            while True:
                receiving = self._in_thread(process.results.recv_bytes, expected.max_message_bytes)
                try:
                    message = expected.read(await clock.wait(receiving, job.name))
                except EOFError:
                    exit_code = await self._in_thread(process.exit_code, _JOIN_SECONDS)
                    raise _died(job, exit_code) from None
                except (BadOutput, OSError) as error:
                    text = ascii(str(error))[:200]
                    log.warning("decoding process sent an invalid message: %s", text)
                    raise _unusable(job) from None
                if isinstance(message, DecodingFailed):
                    if message.cause:
                        log.warning("a recording cannot be decoded: %s", ascii(message.cause))
                    raise from_code(message.code, message.message[:_MAX_MESSAGE_CHARACTERS])
                if not isinstance(message, Confined):
                    yield message
                elif message.without_seccomp and self._settings.require_seccomp:
                    raise AuricleError(f"no seccomp filter: {message.without_seccomp}")
                if isinstance(message, EndOfRecording):
                    return

    @asynccontextmanager
    async def _process(self, job: DecodingJob, path: Path) -> AsyncGenerator[PreparedProcess, None]:
        """Yield a process that runs the job; kill it when the block ends."""
        starting = self._taken() or self._started()
        try:
            if not await self._given(starting, job, path):
                await self._end(starting)
                starting = self._started()
                if not await self._given(starting, job, path):
                    raise _interrupted(job)
            yield starting.result()
        finally:
            await asyncio.shield(asyncio.ensure_future(self._end(starting)))
            if self._waiting is None and not self._closed:
                self._waiting = self._started()

    async def _given(
        self, starting: asyncio.Future[PreparedProcess], job: DecodingJob, path: Path
    ) -> bool:
        """Give the job to a process; False if it has ended, for lack of memory for instance."""
        # A thread cannot be cancelled: the process it has started must be ended in any case.
        started = asyncio.shield(starting)
        process = await with_timeout(_START_SECONDS, started, "starting a decoding process")
        try:
            await self._in_thread(process.give, job, path)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _taken(self) -> asyncio.Future[PreparedProcess] | None:
        """Return the idle process, which may still be starting; None if there is none."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or not waiting.done():
            return waiting
        if (error := waiting.exception()) is not None:
            log.warning("no decoding process could be started in advance: %s", error)
            return None
        return waiting

    def _started(self) -> asyncio.Future[PreparedProcess]:
        return asyncio.ensure_future(self._in_thread(PreparedProcess, self._context, self._prepare))

    async def _end(self, starting: asyncio.Future[PreparedProcess]) -> None:
        """Kill the process and wait until it has ended."""
        await asyncio.wait([starting], timeout=_JOIN_SECONDS)
        if not starting.done():
            starting.add_done_callback(_kill)
            log.error("the fork server of the decoding processes does not respond")
        elif starting.exception() is None:
            process = starting.result()
            if not await self._in_thread(process.end, _JOIN_SECONDS):
                log.error("a decoding process did not end after it was killed")

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, *arguments)


class _WallClock:
    """Limits the total time that the frontend waits for one process.

    Time that the process waits for the frontend does not count.
    """

    def __init__(self, seconds: float) -> None:
        self._limit = self._left = seconds

    async def wait(self, receiving: Awaitable[T], name: str) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await with_timeout(max(self._left, 0.0), receiving, "decoding")
        except DeadlineExceeded:
            raise TooCostly(
                f"decoding {name} took more than the {self._limit:g} s it may "
                "(max_decoding_seconds); send it in parts or in another format"
            ) from None
        finally:
            self._left -= loop.time() - began


def _kill(starting: asyncio.Future[PreparedProcess]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().end(0.0)


def _nothing_to_decode() -> DecodingJob:
    return DecodingJob(
        name="nothing",
        recording=RecordingLimits(seconds=1.0),
        process=ProcessLimits(cpu_seconds=60, memory_bytes=1 << 30),
        segments=SegmentLimits.from_seconds(pause_after=1.0, maximum=1.0, search=1.0),
        endpointing=None,
    )


def _died(job: DecodingJob, exit_code: int | None) -> AuricleError:
    """Return the error for a process that died without a message."""
    if exit_code == -signal.SIGXCPU:
        return TooCostly(
            f"decoding {job.name} took more than the {job.process.cpu_seconds} s of CPU it may "
            "(max_decoding_cpu_seconds); send it in parts or in another format"
        )
    log.warning("a decoding process ended with %s", exit_code)
    if exit_code == -signal.SIGKILL:  # by the kernel, for lack of memory, or by an operator
        return _interrupted(job)
    return _unusable(job)


def _interrupted(job: DecodingJob) -> WorkerUnavailable:
    return WorkerUnavailable(f"decoding {job.name} was interrupted; try again")


def _unusable(job: DecodingJob) -> UndecodableAudio:
    return UndecodableAudio(
        f"{job.name} is damaged, its decoder failed; convert it to WAV or FLAC and try again"
    )
