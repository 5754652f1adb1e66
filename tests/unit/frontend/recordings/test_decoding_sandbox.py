"""A decoder that an upload has compromised has no access, and its results are not trusted."""

from __future__ import annotations

import logging

import pytest

from auricle.core.errors import AuricleError, SettingsError, TooCostly, UndecodableAudio
from auricle.frontend.recordings.sandbox import (
    ProcessLimits,
    SeccompUnavailable,
    install,
    instructions,
)
from auricle_testing import recordings
from tests.decoding import Attempt, collect, job, started, without_seccomp

pytestmark = pytest.mark.unit
ANY_FILE = recordings.path("hello")
REFUSED = "PermissionError"


async def outcome(name: str, process: ProcessLimits | None = None) -> AuricleError:
    """The client's error for a recording whose decoder runs the attempt `name`."""
    made = job() if process is None else job(process=process)
    async for processes in started(Attempt(name), decoding_processes=1, max_decoding_seconds=20):
        with pytest.raises(AuricleError) as raised:
            await collect(processes, made, ANY_FILE)
    return raised.value


@pytest.mark.parametrize(
    "name",
    [
        *("open_a_file", "write_a_file", "open_a_socket", "read_the_parents_descriptors"),
        *("see_whether_a_file_exists", "signal_the_parent", "signal_a_thread_of_the_parent"),
        *("trace_the_parent", "execute_a_program", "start_a_process", "make_memory_executable"),
        "raise_its_limits",
    ],
)
async def test_a_decoder_cannot(name: str) -> None:
    assert str(await outcome(name)) == REFUSED


async def test_a_decoder_may_have_threads_as_libraries_start_them() -> None:
    assert str(await outcome("start_a_thread")) == "it could: True"


async def test_a_decoder_has_its_pipe_and_its_upload() -> None:
    """In addition to the three standard ones, which are connected to nothing."""
    assert str(await outcome("count_its_descriptors")) == "5"


async def test_a_decoder_cannot_write_into_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    assert str(await outcome("write_to_the_log")) == "written"
    assert "forged line" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "name",
    [
        *("decode_less_than_nothing", "decode_more_than_may_be", "end_where_it_did_not"),
        *("invent_channels", "end_before_what_was_decoded", "warn_with_a_line_break"),
        *("warn_at_length", "warn_often"),
        *("send_a_part_from_the_future", "send_parts_backwards", "send_half_a_sample"),
        *("send_too_large_a_part", "send_another_type", "die"),
    ],
)
async def test_nonsense_from_a_decoder_ends_its_recording_only(name: str) -> None:
    error = await outcome(name)
    assert isinstance(error, UndecodableAudio)
    assert str(error).startswith("x.flac is damaged, its decoder failed")


async def test_an_unforeseen_error_is_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The client gets our own message; the log gets the cause, in one line."""
    assert str(await outcome("raise_an_unforeseen_error")).startswith("x.flac cannot be decoded")
    (line,) = [r.getMessage() for r in caplog.records if "secret" in r.getMessage()]
    assert "\n" not in line


async def test_memory_is_limited() -> None:
    error = await outcome("take_memory", ProcessLimits(cpu_seconds=60, memory_bytes=64 << 20))
    assert isinstance(error, TooCostly)
    assert "needs more than 64 MiB to decode (max_decoding_memory_gib)" in str(error)


async def test_a_decoder_that_waits_for_ever_is_ended() -> None:
    made = Attempt("wait_for_ever")
    async for processes in started(made, decoding_processes=1, max_decoding_seconds=0.2):
        with pytest.raises(TooCostly, match=r"took more than the 0\.2 s .*max_decoding_seconds"):
            await collect(processes, job(), ANY_FILE)


# ── where the kernel has no seccomp ─────────────────────────────────────────


def test_a_system_without_a_filter_says_so() -> None:
    with pytest.raises(SeccompUnavailable, match="no filter for Linux on riscv64"):
        install("riscv64")


ALLOWED, EPERM, ENOSYS, KILLED = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
X86, ARM = (0xC000003E, "x86_64"), (0xC00000B7, "aarch64")


def verdict(machine: str, architecture: int, call: int, *arguments: int) -> int:
    """The filter's verdict on a system call of process 77."""
    program = instructions(machine, 77)
    memory = {0: call, 4: architecture, **{16 + 8 * n: value for n, value in enumerate(arguments)}}
    at = value = 0
    while True:
        step = program[at]
        at += 1
        match step.code:
            case 0x20:
                value = memory.get(step.operand, 0)
            case 0x06:
                return step.operand
            case 0x15:
                at += step.if_true if value == step.operand else step.if_false
            case 0x45:
                at += step.if_true if value & step.operand else step.if_false


@pytest.mark.parametrize(
    ("of", "call", "arguments", "expected"),
    [
        *((X86, 0, (), ALLOWED), (ARM, 63, (), ALLOWED)),  # read
        *((X86, 257, (), EPERM), (ARM, 56, (), EPERM)),  # openat
        *((X86, 262, (), EPERM), (ARM, 79, (), EPERM)),  # newfstatat
        *((X86, 41, (), EPERM), (ARM, 198, (), EPERM)),  # socket
        *((X86, 59, (), EPERM), (ARM, 221, (), EPERM)),  # execve
        *((X86, 62, (77,), EPERM), (ARM, 129, (77,), EPERM)),  # kill
        *((X86, 101, (), EPERM), (ARM, 117, (), EPERM)),  # ptrace
        *((X86, 425, (), EPERM), (ARM, 425, (), EPERM)),  # io_uring_setup
        *((X86, 234, (77,), ALLOWED), (ARM, 131, (77,), ALLOWED)),  # tgkill: abort()
        *((X86, 234, (1,), EPERM), (ARM, 131, (1,), EPERM)),
        *((X86, 56, (0x10000,), ALLOWED), (ARM, 220, (0x10000,), ALLOWED)),  # clone: a thread
        *((X86, 56, (17,), EPERM), (ARM, 220, (17,), EPERM)),  # a process
        *((X86, 435, (), ENOSYS), (ARM, 435, (), ENOSYS)),  # clone3
        *((X86, 9, (0, 1, 3), ALLOWED), (ARM, 222, (0, 1, 3), ALLOWED)),  # mmap
        *((X86, 9, (0, 1, 7), EPERM), (ARM, 222, (0, 1, 7), EPERM)),  # executable
        *((X86, 10, (0, 1, 5), EPERM), (ARM, 226, (0, 1, 5), EPERM)),  # mprotect
        (X86, 0x40000000, (), EPERM),  # read of the x32 interface
    ],
)
def test_the_filter_of_each_machine(
    of: tuple[int, str], call: int, arguments: tuple[int, ...], expected: int
) -> None:
    architecture, machine = of
    assert verdict(machine, architecture, call, *arguments) == expected
    other = X86 if of == ARM else ARM
    assert verdict(machine, other[0], call, *arguments) == KILLED


async def test_without_a_filter_there_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async for processes in started(without_seccomp, decoding_processes=1):
        await collect(processes, job(), ANY_FILE)
        await collect(processes, job(), ANY_FILE)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "without a seccomp filter: it is switched off" in warnings[0]


async def test_a_filter_can_be_required() -> None:
    with pytest.raises(SettingsError, match=r"Frontend\.require_seccomp cannot be met"):
        async for _ in started(without_seccomp, decoding_processes=1, require_seccomp=True):
            pass
