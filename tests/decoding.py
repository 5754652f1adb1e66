"""Jobs and work for decoding processes under test. They import this module by name."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from auricle.audio.recording import RecordingLimits
from auricle.audio.segmentation import SegmentLimits
from auricle.config.settings import FrontendSettings
from auricle.core.errors import UndecodableAudio
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.recordings import sandbox as confinement
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.decoding_process import (
    DecodingJob,
    EndOfRecording,
    Output,
    RecordingDecoder,
)
from auricle.frontend.recordings.parts import DecodedSamples, RecordingPart
from auricle.frontend.recordings.sandbox import ProcessLimits, SeccompUnavailable

LIMITS = SegmentLimits.from_seconds(pause_after=8, maximum=20, search=3)
VAD = EndpointingOptions(0.5, 500, 300)
GENEROUS = RecordingLimits(seconds=7200.0)
_PTRACE_ATTACH = 16
Work = Callable[[DecodingJob, BinaryIO], Iterator[Output]]


def job(name: str = "x.flac", **changes: Any) -> DecodingJob:
    values = {
        "name": name,
        "recording": GENEROUS,
        "process": ProcessLimits(cpu_seconds=60, memory_bytes=1 << 30),
        "segments": LIMITS,
        "endpointing": VAD,
        **changes,
    }
    return DecodingJob(**values)


async def started(prepare: Any = None, **settings: Any) -> AsyncGenerator[DecodingProcesses, None]:
    """Run decoding processes until the block ends."""
    given = FrontendSettings(**settings)
    made = DecodingProcesses(given) if prepare is None else DecodingProcesses(given, prepare)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


async def collect(
    made: DecodingProcesses, one: DecodingJob, path: Path, owner: str = "somebody"
) -> list[Output]:
    return [output async for output in made.outputs(one, path, owner)]


def without_seccomp() -> Work:
    """Work in a process whose kernel lacks seccomp."""

    def refuse() -> None:
        raise SeccompUnavailable("it is switched off")

    confinement.install = refuse
    return RecordingDecoder()


# ── work of a decoder that an upload has taken over ─────────────────────────
# `Attempt(name)` prepares it; its process is then confined as every other.


class Attempt:
    """Tries one operation and fails with its result; picklable by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> Work:
        work: Callable[[BinaryIO], Iterator[Output]] = getattr(self, self.name)
        return lambda _job, file: work(file)

    def _report(self, outcome: object) -> Iterator[Output]:
        raise UndecodableAudio(str(outcome))
        yield EndOfRecording(0)

    def _try(self, what: Callable[[], object]) -> Iterator[Output]:
        try:
            outcome = f"it could: {what()}"
        except OSError as error:
            outcome = type(error).__name__
        return self._report(outcome)

    def open_a_file(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: os.open("/etc/passwd", os.O_RDONLY))

    def write_a_file(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: os.open("/tmp/left-behind", os.O_CREAT | os.O_WRONLY))

    def open_a_socket(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(socket.socket)

    def read_the_parents_descriptors(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: list(Path(f"/proc/{os.getppid()}/fd").iterdir()))

    def see_whether_a_file_exists(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(Path("/etc/passwd").stat)

    def signal_the_parent(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: os.kill(os.getppid(), 0))

    def signal_a_thread_of_the_parent(self, _file: BinaryIO) -> Iterator[Output]:
        parent = os.getppid()
        return self._try(lambda: _called("tgkill", parent, parent, 0))

    def trace_the_parent(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: _called("ptrace", _PTRACE_ATTACH, os.getppid(), 0, 0))

    def execute_a_program(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: os.execv("/bin/true", ["true"]))

    def start_a_process(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(os.fork)

    def make_memory_executable(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_EXEC | mmap.PROT_READ))

    def raise_its_limits(self, _file: BinaryIO) -> Iterator[Output]:
        return self._try(lambda: _called("prlimit", 0, resource.RLIMIT_CPU, 0, 0))

    def start_a_thread(self, _file: BinaryIO) -> Iterator[Output]:
        ran = threading.Event()
        thread = threading.Thread(target=ran.set)
        thread.start()
        thread.join()
        return self._report(f"it could: {ran.is_set()}")

    def count_its_descriptors(self, _file: BinaryIO) -> Iterator[Output]:
        return self._report(sum(map(_is_open, range(4096))))

    def write_to_the_log(self, _file: BinaryIO) -> Iterator[Output]:
        os.write(2, b"forged line\n")
        return self._report("written")

    # and the effects on its frontend

    def wait_for_ever(self, _file: BinaryIO) -> Iterator[Output]:
        threading.Event().wait()
        yield EndOfRecording(0)

    def take_memory(self, _file: BinaryIO) -> Iterator[Output]:
        yield DecodedSamples(len(bytearray(1 << 30)))

    def die(self, _file: BinaryIO) -> Iterator[Output]:
        os.abort()
        yield EndOfRecording(0)

    def raise_an_unforeseen_error(self, _file: BinaryIO) -> Iterator[Output]:
        yield DecodedSamples(16_000)
        raise RuntimeError("a secret\nforged line")

    def decode_less_than_nothing(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (DecodedSamples(-16_000), EndOfRecording(-16_000))

    def decode_more_than_may_be(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (DecodedSamples(1 << 62), EndOfRecording(1 << 62))

    def end_where_it_did_not(self, _file: BinaryIO) -> Iterator[Output]:
        yield EndOfRecording(1 << 40)

    def invent_channels(self, _file: BinaryIO) -> Iterator[Output]:
        yield EndOfRecording(0, 1 << 30)

    def end_before_what_was_decoded(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (DecodedSamples(16_000), EndOfRecording(8_000))

    def warn_with_a_line_break(self, _file: BinaryIO) -> Iterator[Output]:
        yield EndOfRecording(0, warnings=("a: b\r\nSet-Cookie: c",))

    def warn_at_length(self, _file: BinaryIO) -> Iterator[Output]:
        yield EndOfRecording(0, warnings=("x" * 301,))

    def warn_often(self, _file: BinaryIO) -> Iterator[Output]:
        yield EndOfRecording(0, warnings=("x",) * 1_000)

    def send_a_part_from_the_future(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (RecordingPart(1 << 62, (1 << 62) + 1, b"\0\0"), EndOfRecording(0))

    def send_parts_backwards(self, _file: BinaryIO) -> Iterator[Output]:
        yield RecordingPart(16_000, 17_000, b"\0\0")
        yield from (RecordingPart(0, 1_000, b"\0\0"), EndOfRecording(0))

    def send_half_a_sample(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (RecordingPart(0, 1, b"\0"), EndOfRecording(0))

    def send_too_large_a_part(self, _file: BinaryIO) -> Iterator[Output]:
        yield from (RecordingPart(0, 16_000, bytes(64 << 20)), EndOfRecording(0))

    def send_another_type(self, _file: BinaryIO) -> Iterator[Output]:
        yield from ({"type": "Part"}, EndOfRecording(0))  # type: ignore[misc]


def _called(name: str, *arguments: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    function = getattr(libc, name)
    if function(*map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "done"


def _is_open(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError as error:
        return error.errno != 9  # EBADF; a pipe cannot seek, but is open
    return True
