"""Ends this process if its event loop hangs, and shows where every thread stood.

Only time in which the process runs counts: after a machine that stood still (suspended, starved, or
all processes stopped) the loop has been silent for long, and is well.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.5
_STOOD_STILL_SECONDS = 3.0  # since the last look: the count then starts anew
# A library that holds the interpreter's lock stops this thread too. Then the launcher ends the
# process. Without one the interpreter's own timer does, which counts all time, so it is set longer.
_LAST_RESORT = 8.0


class Watchdog:
    """A thread that ends the process when `beat` was not called for `limit_seconds`."""

    def __init__(
        self,
        limit_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        end: Callable[[], None] | None = None,
    ) -> None:
        """`end` is called in the thread; by default it ends the process, with exit code 1."""
        self.limit_seconds = limit_seconds
        self._clock = clock
        self._end = end or self._end_process
        self._silent = 0.0
        self._looked = clock()
        self._disarmed = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self) -> None:
        """Say that the event loop runs; the first call starts the thread."""
        self._silent = 0.0
        if not os.environ.get("AURICLE_SUPERVISED"):
            faulthandler.dump_traceback_later(_LAST_RESORT * self.limit_seconds, exit=True)
        if self._thread is None:
            self._looked = self._clock()
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Count the time since the last look, and end the process if it is too much."""
        now = self._clock()
        passed, self._looked = now - self._looked, now
        self._silent = 0.0 if passed > _STOOD_STILL_SECONDS else self._silent + passed
        if self._silent >= self.limit_seconds:
            self._end()

    def disarm(self) -> None:
        """Let the process end in its own time."""
        self._disarmed.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        every = min(_LOOK_SECONDS, self.limit_seconds / 2)
        while not self._disarmed.wait(every):
            self.look()

    def _end_process(self) -> None:
        print(f"Timeout: the event loop hangs for {self.limit_seconds:g} s", file=sys.stderr)
        faulthandler.dump_traceback()
        os._exit(1)
