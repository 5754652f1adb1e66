"""Returns to the operating system what this process has freed.

glibc keeps free memory that lies between memory in use. Where blocks of changing sizes come and go
for ever (a primitive of oneDNN per shape of a batch, the audio of sessions) that grows for hours,
though nothing is lost. `malloc_trim` returns all free pages, wherever they lie.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

# A call takes 0.1 to 10 ms, in which other threads wait for memory; freed pages come back as zeros,
# which costs more than to keep them. So it is rare.
_EVERY_SECONDS = 60.0


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
