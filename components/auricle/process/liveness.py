"""Whether the parts of a process that can hang still answer: its threads, its engine, its device.

A process that hangs ends itself. The interpreter's watchdog (`faulthandler`) needs neither the
event loop nor the interpreter lock, and prints where every thread stood. A frozen process cannot
do that; the launcher misses its beat, and Kubernetes its /live.
"""

from __future__ import annotations

import asyncio
import faulthandler
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from auricle.errors import ProcessFailed
from auricle.messages import Alive, AskAlive
from auricle.process.status import report_alive
from auricle.tasks import cancelled

Ask = Callable[[], Awaitable[object]]
_EVERY_SECONDS = 0.5
_BEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Silence:
    """The part that has owed an answer for longest, for `seconds`; 0 if none owes one."""

    part: str
    seconds: float


class Liveness:
    """Asks each part of this process again and again, and knows since when one owes an answer.

    The event loop is not asked: nothing here happens while it hangs. Not thread-safe: use it on
    one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: dict[str, Ask] = {}
        self._asked: dict[str, float] = {}

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

    async def answer(self, _request: AskAlive) -> Alive:
        """Answer another process's question on the event loop, which so proves to run."""
        silence = self.silence()
        return Alive(silence.seconds, silence.part)

    async def run(self) -> None:
        """Ask all parts until cancelled; the caller owns this task. Raises what a part raised."""
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


async def beat(liveness: Liveness, limit_seconds: float) -> None:
    """Tell the launcher every second that this process answers, until cancelled.

    Ends the process with all threads' stacks on standard error, exit code 1, if the event loop
    hangs for `limit_seconds`. Raises ProcessFailed once a part has been silent for as long.
    """
    while True:
        faulthandler.dump_traceback_later(limit_seconds, exit=True)
        silence = liveness.silence()
        if silence.seconds >= limit_seconds:
            raise ProcessFailed(f"{silence.part} has not answered for {silence.seconds:.0f} s")
        report_alive()
        await asyncio.sleep(_BEAT_SECONDS)


def disarm() -> None:
    """Let the process end in its own time; one that has failed keeps the deadline."""
    faulthandler.cancel_dump_traceback_later()
