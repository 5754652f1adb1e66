"""Detects parts of a process that hang: its threads, its engine, its device.

A process that hangs ends itself, and prints the stack of every thread. A frozen process cannot do
that: the launcher misses its heartbeat, and Kubernetes its /live.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from auricle.core.aio import cancelled
from auricle.core.errors import ProcessFailed
from auricle.process.metrics import report_alive
from auricle.protocol.control import Alive, AskAlive

# Only time in which the process runs counts: after the machine was suspended or starved, or all
# processes were stopped, the loop has been silent for long without a fault.

_CHECK_SECONDS = 0.5
_SUSPENDED_SECONDS = 3.0  # since the last check: the count then restarts
# A library that holds the interpreter's lock stops this thread, too. Then the launcher ends the
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
        self._checked = clock()
        self._disarmed = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self) -> None:
        """Report that the event loop runs; the first call starts the thread."""
        self._silent = 0.0
        if not os.environ.get("AURICLE_SUPERVISED"):
            faulthandler.dump_traceback_later(_LAST_RESORT * self.limit_seconds, exit=True)
        if self._thread is None:
            self._checked = self._clock()
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Add the time since the last check, and end the process at the limit."""
        now = self._clock()
        passed, self._checked = now - self._checked, now
        self._silent = 0.0 if passed > _SUSPENDED_SECONDS else self._silent + passed
        if self._silent >= self.limit_seconds:
            self._end()

    def disarm(self) -> None:
        """Let the process end in its own time."""
        self._disarmed.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        every = min(_CHECK_SECONDS, self.limit_seconds / 2)
        while not self._disarmed.wait(every):
            self.check()

    def _end_process(self) -> None:
        print(f"Timeout: the event loop hangs for {self.limit_seconds:g} s", file=sys.stderr)
        faulthandler.dump_traceback()
        os._exit(1)


Ask = Callable[[], Awaitable[object]]
_EVERY_SECONDS = 0.5
_BEAT_SECONDS = 1.0
_OWN_LAG_SECONDS = 3.0  # beyond it was this process that stood still, and not its parts


@dataclass(frozen=True)
class Silence:
    """The part that has owed an answer for longest, for `seconds`; 0 if none owes one."""

    part: str
    seconds: float


class Liveness:
    """Probes each part of this process periodically, and measures how long an answer is overdue.

    The event loop is not probed: this class does not run while it hangs. Not thread-safe: use it
    on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: dict[str, Ask] = {}
        self._asked: dict[str, float] = {}
        self._beaten: float | None = None

    def part(self, name: str, ask: Ask) -> None:
        """Add a part before `run`. `ask()` returns once the part has answered.

        It raises only if the part is lost for good, which ends the process.
        """
        self._parts[name] = ask

    def silence(self) -> Silence:
        """Return the part that has owed an answer for longest."""
        now = self._clock()
        owed = [Silence(name, now - asked) for name, asked in self._asked.items()]
        return max(owed, key=lambda one: one.seconds, default=Silence("", 0.0))

    def beat(self, longest_seconds: float) -> None:
        """Count the parts' silence anew if this was not called for `longest_seconds`.

        The event loop stood still then: maybe with the machine, and the parts with it.
        """
        now = self._clock()
        before, self._beaten = self._beaten, now
        if before is not None and now - before > longest_seconds:
            self._asked = dict.fromkeys(self._asked, now)

    async def answer(self, _request: AskAlive) -> Alive:
        """Answer another process's question on the event loop, which so proves to run."""
        silence = self.silence()
        return Alive(silence.seconds, silence.part)

    async def run(self) -> None:
        """Probe all parts until cancelled; the caller owns this task. Raises errors of parts."""
        asking = [asyncio.create_task(self._ask(name, ask)) for name, ask in self._parts.items()]
        if not asking:
            return
        try:
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancelled(asking)

    async def _ask(self, name: str, ask: Ask) -> None:
        while True:
            self._asked[name] = self._clock()
            await ask()
            del self._asked[name]
            await asyncio.sleep(_EVERY_SECONDS)


async def beat(liveness: Liveness, watchdog: Watchdog) -> None:
    """Tell the watchdog, and every second the launcher, that this process answers.

    Runs until cancelled. Raises ProcessFailed once a part has been silent for as long as the
    watchdog's limit, in time in which the process ran.
    """
    while True:
        watchdog.beat()
        liveness.beat(_BEAT_SECONDS + _OWN_LAG_SECONDS)
        silence = liveness.silence()
        if silence.seconds >= watchdog.limit_seconds:
            raise ProcessFailed(f"{silence.part} has not answered for {silence.seconds:.0f} s")
        report_alive()
        await asyncio.sleep(_BEAT_SECONDS)
