"""Removes all privileges that decoding does not need, before a process reads a client's file.

Two layers: limits on resources, which every Linux has (no new descriptor, bounded memory and
CPU), and a seccomp filter, where the kernel has it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

# A seccomp filter that allows computation, memory, and I/O on open files.
#
# Written out instead of taken from a library: the Python bindings of libseccomp need the C library
# on the machine, which PyPI does not have. Linux on x86_64 and aarch64 only.

# linux/prctl.h, linux/seccomp.h, linux/audit.h, linux/bpf_common.h
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_RET_KILL_PROCESS, _RET_ERRNO, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _RETURN = 0x20, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_RET|BPF_K
_IF_EQUAL, _IF_ANY_BIT = 0x15, 0x45  # BPF_JMP|BPF_JEQ|BPF_K, BPF_JMP|BPF_JSET|BPF_K
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_PROT_EXEC, _CLONE_THREAD = 0x4, 0x10000

_NUMBERS = {  # of system calls, on x86_64 and aarch64; -1 where there is none
    "read": (0, 63),
    "readv": (19, 65),
    "pread64": (17, 67),
    "write": (1, 64),
    "writev": (20, 66),
    "lseek": (8, 62),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "futex": (202, 98),
    "membarrier": (324, 283),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrusage": (98, 165),
    "getcpu": (309, 168),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "clone": (56, 220),
    "clone3": (435, 435),
    "tgkill": (234, 131),
    "seccomp": (317, 277),
}
# These depend on their arguments, see `instructions`.
_NOT_SIMPLY = {"mmap", "mprotect", "clone", "clone3", "tgkill", "seccomp"}
_ALLOWED = tuple(name for name in _NUMBERS if name not in _NOT_SIMPLY)
# The column above, and the number that the kernel gives the architecture.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


class SeccompUnavailable(Exception):
    """The filter cannot be installed here; the message gives the reason."""


@dataclass(frozen=True)
class Instruction:
    """One of classic BPF's: code, jump distances if true and if false, and operand."""

    code: int
    operand: int
    if_true: int = 0
    if_false: int = 0


def install(machine: str = platform.machine()) -> None:
    """Filter the system calls of this process and all its threads, irrevocably.

    Calls that computation does not need fail with EPERM: opening files, sockets, processes,
    signals to others, executable memory, and every call not in the list of allowed ones.
    Raises SeccompUnavailable.
    """
    if platform.system() != "Linux" or machine not in _MACHINES:
        raise SeccompUnavailable(f"no filter for {platform.system()} on {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program(instructions(machine, os.getpid()))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise SeccompUnavailable(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    if libc.syscall(
        ctypes.c_long(_NUMBERS["seccomp"][_MACHINES[machine][0]]),
        ctypes.c_ulong(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_ulong(_SECCOMP_FILTER_FLAG_TSYNC),
        ctypes.byref(program),
    ):
        raise SeccompUnavailable(f"seccomp: {os.strerror(ctypes.get_errno())}")


def instructions(machine: str, process: int) -> list[Instruction]:
    """Return the filter for a machine's process number `process`. Pure."""
    column, architecture = _MACHINES[machine]
    numbers = {name: pair[column] for name, pair in _NUMBERS.items() if pair[column] >= 0}
    program = [
        Instruction(_LOAD, _ARCHITECTURE),
        Instruction(_IF_EQUAL, architecture, if_true=1),
        Instruction(_RETURN, _RET_KILL_PROCESS),
        Instruction(_LOAD, _NUMBER),
    ]
    for call in ("mmap", "mprotect"):
        program += _by_argument(numbers[call], 2, _IF_ANY_BIT, _PROT_EXEC, allowed_if=False)
    # Its own threads, with the older call only: a filter can see its flags.
    program += _by_argument(numbers["clone"], 0, _IF_ANY_BIT, _CLONE_THREAD, allowed_if=True)
    program += _if_number(numbers["clone3"], _RET_ERRNO | errno.ENOSYS)
    program += _by_argument(numbers["tgkill"], 0, _IF_EQUAL, process, allowed_if=True)
    for call in _ALLOWED:
        if call in numbers:
            program += _if_number(numbers[call], _RET_ALLOW)
    return [*program, Instruction(_RETURN, _RET_ERRNO | errno.EPERM)]


def _if_number(number: int, result: int) -> list[Instruction]:
    return [Instruction(_IF_EQUAL, number, if_false=1), Instruction(_RETURN, result)]


def _by_argument(
    number: int, argument: int, test: int, operand: int, *, allowed_if: bool
) -> list[Instruction]:
    """Allow the call, or refuse it with EPERM, by the lower 32 bits of one argument."""
    refused = _RET_ERRNO | errno.EPERM
    yes, no = (_RET_ALLOW, refused) if allowed_if else (refused, _RET_ALLOW)
    return [
        Instruction(_IF_EQUAL, number, if_false=4),
        Instruction(_LOAD, 16 + 8 * argument),
        Instruction(test, operand, if_false=1),
        Instruction(_RETURN, yes),
        Instruction(_RETURN, no),
    ]


class _SockFilter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint32),
    )


class _SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_SockFilter)))


def _program(made: Sequence[Instruction]) -> _SockFprog:
    filters = (_SockFilter * len(made))(
        *(_SockFilter(i.code, i.if_true, i.if_false, i.operand) for i in made)
    )
    return _SockFprog(len(made), filters)


_PR_SET_PDEATHSIG = 1
_NICE = 19  # lowest priority, because live sessions come first
_STANDARD = (0, 1, 2)


class ProcessLimits(msgspec.Struct, frozen=True):
    """`memory_bytes` is in addition to the memory the process uses when it is confined."""

    cpu_seconds: int
    memory_bytes: int


def confine(keep: Iterable[int], limits: ProcessLimits) -> str:
    """Confine this process: it keeps the descriptors `keep`, and cannot get others.

    Import and open everything first. Returns the reason for a missing seccomp filter, or "".
    """
    os.nice(_NICE)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    kept = set(keep)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _close_all_but(kept)
    for kind, limit in (
        (resource.RLIMIT_AS, used + limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        # The soft limit on CPU time ends the process by SIGXCPU, the hard one by SIGKILL.
        hard = limit + 1 if kind == resource.RLIMIT_CPU else limit
        resource.setrlimit(kind, (limit, hard))
    try:
        install()
    except SeccompUnavailable as error:
        return str(error)
    return ""


def _close_all_but(kept: set[int]) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in _STANDARD:
        os.dup2(nowhere, number)
    start = len(_STANDARD)
    for number in sorted(kept):
        os.closerange(start, number)
        start = number + 1
    os.closerange(start, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
