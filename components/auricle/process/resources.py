"""Keeps a process that runs for weeks as small as its sessions are.

`trim_heap` returns to the operating system what the process has freed. glibc keeps free memory that
lies between memory in use. Where blocks of changing sizes come and go for ever (a primitive of
oneDNN per shape of a batch, the audio of sessions) that grows for hours, though nothing is lost.
`malloc_trim` returns all free pages, wherever they lie.

`collect_rarely` and `freeze_heap` are for Python's garbage collection, while a process starts and
once it serves. Sessions that end leave cycles behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path

# A call takes 0.1 to 10 ms, in which other threads wait for memory; freed pages come back as zeros,
# which costs more than to keep them. So it is rare.
_EVERY_SECONDS = 60.0
_USUAL = gc.get_threshold()
# So many new objects are made before it looks for garbage, instead of 700.
_RARELY = 100_000


def trim_heap(every_seconds: float = _EVERY_SECONDS) -> threading.Event | None:
    """Trim the heap regularly, in a thread, until the event is set or the process ends.

    Returns None, and does nothing, where the C library cannot (it is not glibc).
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return None
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(every_seconds):
            trim(0)  # without the interpreter's lock

    threading.Thread(target=run, name="trim-heap", daemon=True).start()
    return stopped


def collect_rarely() -> None:
    """Collect garbage rarely from here to `collect_as_usual`, or for as long as the process lives.

    Importing PyTorch and vLLM makes a million objects, which all stay. To look for garbage among
    them again and again is a quarter of the work of a start.
    """
    gc.set_threshold(_RARELY)


def collect_as_usual() -> None:
    """Collect garbage as Python does by itself."""
    gc.set_threshold(*_USUAL)


def freeze_heap() -> None:
    """Exclude the objects that exist by now (libraries and weights) from garbage collection.

    To look at them would pause every session for a tenth of a second now and then. Python looks
    for old cycles once there are a quarter as many new objects as it saw the last time, so it must
    see how few are left: else that takes an hour in a processor, and days in a PD worker.
    From here on garbage is collected as usual.
    """
    collect_as_usual()
    gc.collect()
    gc.freeze()
    gc.collect()


# The limit of file descriptors (`ulimit -n`) of this process.

# Beyond it some libraries make tables of that size; nobody has so many connections.
_MOST = 1 << 20
# Of a frontend, for everything but clients: discovery, processors, decoding processes, files.
_OWN = 256
# A recording has its connection and its file.
_PER_CONNECTION = 2


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else _MOST


def connections_within_limit(wanted: int) -> int:
    """Return how many connections there can be, at most `wanted`.

    More would end in errors everywhere; so many more clients are refused with 503.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - _OWN) // _PER_CONNECTION))


# Processes that give way to others on the same cores.

_AUTOGROUP = Path("/proc/self/autogroup")


def give_way(nice: int) -> None:
    """Run this process, and those that it starts, at a niceness that is higher by so much.

    Where Linux divides the cores among sessions first, a niceness counts within its session only,
    and the session has one of its own (sched(7), "The autogroup feature"). That is changed if the
    session is this process's, as those of a launcher's components are.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # a kernel without autogroups
            _AUTOGROUP.write_text(str(nice))
