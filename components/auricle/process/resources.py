"""Bounds the memory, descriptors and CPU share of a process that runs for weeks.

`trim_heap` returns freed memory to the operating system. glibc keeps free memory that lies between
memory in use. If blocks of changing sizes come and go (a primitive of oneDNN per shape of a batch,
the audio of sessions), this grows for hours without a leak. `malloc_trim` returns all free pages.

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

    Scanning them would sometimes pause every session for a tenth of a second. Python scans old
    objects once new objects exceed a quarter of the last count, so it must count the few remaining
    ones now: otherwise that takes an hour in a processor, and days in a PD worker. From here on
    garbage is collected as usual.
    """
    collect_as_usual()
    gc.collect()
    gc.freeze()
    gc.collect()


# The highest limit of file descriptors (`ulimit -n`): some libraries make tables of its size.
_MOST = 1 << 20
# Of a frontend, for everything but clients: discovery, processors, decoding processes, files.
_OWN = 256
# A recording has its connection and its file; a connection of gRPC is passed on by another one,
# which has two ends in this process.
_PER_CONNECTION, _WITH_GRPC = 2, 3


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else _MOST


def connections_within_limit(wanted: int, *, grpc: bool = False) -> int:
    """Return the number of connections that the limit of descriptors permits, at most `wanted`.

    Further clients are refused with 503; without descriptors, all parts of the process would fail.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - _OWN) // (_WITH_GRPC if grpc else _PER_CONNECTION)))


_AUTOGROUP = Path("/proc/self/autogroup")


def lower_priority(nice: int) -> None:
    """Raise the niceness of this process and its children by `nice`, for others on its cores.

    If Linux divides the cores among sessions first, niceness counts only within a session, which
    has its own niceness (sched(7), "The autogroup feature"). That is set, too, if this process
    leads its session, as a launcher's components do.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # a kernel without autogroups
            _AUTOGROUP.write_text(str(nice))
