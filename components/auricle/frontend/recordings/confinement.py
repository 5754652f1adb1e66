"""Takes from a process all that decoding does not need, before it reads what a client sent.

Two layers: limits on resources, which every Linux has (no new descriptor, no growth beyond
the memory and CPU it may use), and a seccomp filter (seccomp.py), where the kernel has it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Iterable
from pathlib import Path

import msgspec

from auricle.frontend.recordings.seccomp import SeccompUnavailable, install

_PR_SET_PDEATHSIG = 1
_NICE = 19  # lowest priority, because live sessions come first
_STANDARD = (0, 1, 2)


class ProcessLimits(msgspec.Struct, frozen=True):
    """`memory_bytes` may be used beyond what the process uses when it is confined."""

    cpu_seconds: int
    memory_bytes: int


def confine(keep: Iterable[int], limits: ProcessLimits) -> str:
    """Confine this process: it keeps the descriptors `keep`, and cannot get others.

    Import and open everything first. Returns why there is no seccomp filter, or "" if there is
    one.
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
