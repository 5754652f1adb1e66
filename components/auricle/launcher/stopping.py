"""Stops processes: with a drain, or at once if somebody is in a hurry."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

from auricle.launcher.output import OutputWatcher
from auricle.launcher.processes import Process
from auricle.tasks import cancelled

# From the end of its drain until a process is killed: in it, requests in flight end (10 s), tasks
# are cancelled (5 s), and memory is given back.
_STOP_SECONDS = 20.0


class Stopping:
    """Whether the graph is being stopped, and how. Use it on one event loop.

    The first SIGTERM lets every process drain. SIGINT, and a second SIGTERM, end drains in
    progress and skip the others.
    """

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether anybody has asked to stop."""
        return self._asked.is_set()

    @property
    def hurried(self) -> bool:
        """Whether nothing is to be waited for."""
        return self._hurry.is_set()

    def terminate(self) -> None:
        """Stop with a drain; the second time, without."""
        if self._asked.is_set():
            self._hurry.set()
        self._asked.set()

    def interrupt(self) -> None:
        """Stop without a drain."""
        self._asked.set()
        self._hurry.set()

    async def wait(self) -> None:
        """Wait until somebody asks to stop."""
        await self._asked.wait()

    async def end(self, process: Process, watcher: OutputWatcher) -> None:
        """Stop a process and read the rest of its output; kill it if it exceeds its time.

        It has `drain_seconds` for its drain, and 20 s from then, or from the begin of a hurry.
        """
        drains = process.ready.is_set() and not self._hurry.is_set()
        # A process that is not ready handles no signal, so SIGTERM ends it at once.
        at_once = signal.SIGINT if process.ready.is_set() else signal.SIGTERM
        watcher.stop_signal = signal.SIGTERM if drains else at_once
        watcher.graceful_timeout = _STOP_SECONDS + (process.drain_seconds if drains else 0.0)
        ended = asyncio.ensure_future(watcher._stop())
        if drains:
            await self._until(ended)
            if not ended.done():
                _signal(watcher, signal.SIGINT)
                await asyncio.wait([ended], timeout=_STOP_SECONDS)
            if not ended.done():
                _signal(watcher, signal.SIGKILL)
        await ended
        watcher.output.finish()

    async def _until(self, ended: asyncio.Future[None]) -> None:
        """Return when the process has ended, or somebody is in a hurry."""
        hurry = asyncio.create_task(self._hurry.wait())
        waiting: set[asyncio.Future[Any]] = {ended, hurry}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await cancelled([hurry])


def _signal(watcher: OutputWatcher, number: signal.Signals) -> None:
    for pid in list(watcher.processes):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
