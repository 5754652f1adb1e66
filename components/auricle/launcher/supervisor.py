"""Runs the processes of a graph on this machine.

circus starts, signals and reaps them; what it does not have is added here:
start one after the other as each says ready, and restart with back-off.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from circus.arbiter import Arbiter
from circus.watcher import Watcher
from tornado.ioloop import IOLoop

from auricle.errors import AuricleError
from auricle.launcher.processes import MakesProcesses, Process
from auricle.launcher.status import OutputReader, StatusBoard
from auricle.tasks import TaskOwner

_POLL_SECONDS = 0.25
_READY_SECONDS = 300.0
_STOP_SECONDS = 20.0
_BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)
_STABLE_SECONDS = 60.0  # a process that lived this long starts with no back-off again


class StartFailed(AuricleError):
    """A component ended or stayed silent before it was ready."""


class Supervisor:
    """Start in order, keep running, stop everything."""

    def __init__(
        self,
        processes: list[Process],
        factory: MakesProcesses,
        board: StatusBoard,
        on_status: Callable[[Process, str], None] = lambda _process, _status: None,
    ) -> None:
        self._processes = {p.name: p for p in processes}
        self._factory = factory
        self._changing = TaskOwner()  # starts and drains that somebody asked for
        self._board = board
        self._on_status = on_status
        self._stop = asyncio.Event()
        self._running = False  # everything was ready once
        board.on_closed = self._stop.set
        self._sockets = Path(tempfile.mkdtemp(prefix="auricle-circus-"))
        logging.getLogger("circus").setLevel(logging.ERROR)
        watchers = [self._watcher(p) for p in processes]
        self._watchers: dict[str, Watcher] = {w.name: w for w in watchers}
        self._arbiter = Arbiter(
            watchers,
            endpoint=f"ipc://{self._sockets}/control",
            pubsub_endpoint=f"ipc://{self._sockets}/events",
            check_delay=-1,  # `_watch` below looks at the watchers
            proc_name="auricle serve",
            loop=IOLoop.current(),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)  # instead of circus's handlers

    def _watcher(self, process: Process) -> Watcher:
        reader = OutputReader(process.name, self._status, self._line)
        return Watcher(
            process.name,
            process.command[0],
            args=process.command[1:],
            env=process.environment,
            copy_env=True,
            respawn=False,
            autostart=False,
            stdout_stream={"stream": reader},
            stderr_stream={"stream": OutputReader(process.name, self._status, self._line)},
            # A process group of its own: Ctrl-C reaches the launcher only, which stops in order.
            shell=False,
            close_child_stdin=True,
        )

    # ── what processes say ──────────────────────────────────────────────────

    def _status(self, name: str, status: str) -> None:
        process = self._processes[name]
        process.statuses.append(status)
        self._board.set(name, status)
        self._on_status(process, status)
        if status == "ready":
            process.start_seconds = time.monotonic() - process.started_at
            process.ready.set()

    def _line(self, name: str, line: str) -> None:
        self._board.log(name, line)

    # ── life ────────────────────────────────────────────────────────────────

    async def run(self, groups: list[list[str]], on_ready: Callable[[], None]) -> None:
        """Start group by group (each waits for the one before), then watch until stopped.

        Raises StartFailed if a process is not ready in time; in every case
        nothing is left running.
        """
        tasks: list[asyncio.Task[Any]] = []
        try:
            await self._arbiter.start()
            stopping = asyncio.create_task(self._stop.wait())
            watching = asyncio.create_task(self._watch())
            starting = asyncio.create_task(self._start_groups(groups))
            tasks = [stopping, watching, starting]
            if await _first_of(tasks) is starting:
                self._running = True
                on_ready()
                await _first_of([stopping, watching])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._shut_down()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()

    # ── more and fewer ──────────────────────────────────────────────────────

    def counts(self) -> dict[str, dict[str, int]]:
        """By component: replicas wanted (those leaving are not), and those that are ready."""
        return {
            component: {
                "replicas": len(staying := self._staying(component)),
                "ready": sum(p.ready.is_set() for p in staying),
            }
            for component in self._factory.components
        }

    def start_seconds(self, component: str) -> float:
        """How long a process of it took to become ready, the last time one did."""
        return max(p.start_seconds for p in self._staying(component))

    async def scale(self, component: str, replicas: int) -> None:
        """Start or drain processes of a component; does not wait for either."""
        staying = self._staying(component)
        for process in staying[replicas:]:
            process.leaving = True
            self._changing.start(self._drain(process), f"drain {process.name}")
        # Numbers of those that still drain are taken: their GPU and port are.
        taken = {p.number for p in self._processes.values() if p.component == component}
        numbers = (n for n in itertools.count(1) if n not in taken)
        missing = itertools.islice(numbers, max(0, replicas - len(staying)))
        added = [self._factory.make(component, number) for number in missing]
        # All are known before any is waited for: another call must not make the same ones.
        for process in added:
            self._processes[process.name] = process
            self._board.add(process.name)
            self._adopt(process)
        for process in added:
            await self._start(process)

    def _staying(self, component: str) -> list[Process]:
        of_component = (p for p in self._processes.values() if p.component == component)
        return [p for p in of_component if not p.leaving]

    def _adopt(self, process: Process) -> None:
        """A watcher for a process that circus was not started with."""
        watcher = self._watcher(process)
        watcher.initialize(self._arbiter.evpub_socket, self._arbiter.sockets, self._arbiter)
        self._watchers[process.name] = watcher
        self._arbiter.watchers.append(watcher)

    async def _drain(self, process: Process) -> None:
        """Let it finish what it holds, then forget it."""
        watcher = self._watchers[process.name]
        watcher.stop_signal = signal.SIGTERM
        watcher.graceful_timeout = process.drain_seconds + _STOP_SECONDS
        await watcher._stop()
        self._arbiter.watchers.remove(watcher)
        del self._watchers[process.name], self._processes[process.name]
        self._board.remove(process.name)

    async def _start_groups(self, groups: list[list[str]]) -> None:
        for group in groups:
            for name in group:
                await self._start(self._processes[name])
            for name in group:
                process = self._processes[name]
                try:
                    async with asyncio.timeout(_READY_SECONDS):
                        await process.ready.wait()
                except TimeoutError:
                    raise StartFailed(f"{name} was not ready in {_READY_SECONDS:g} s") from None

    async def _start(self, process: Process) -> None:
        process.ready.clear()
        process.start_again_at = None
        process.started_at = time.monotonic()
        self._board.set(process.name, "starting")
        await self._watchers[process.name]._start()

    async def _watch(self) -> None:
        """Reap the dead and start them again."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await self._arbiter.manage_watchers()
            for process in list(self._processes.values()):
                if not process.leaving:
                    await self._look_at(process)

    async def _look_at(self, process: Process) -> None:
        now = time.monotonic()
        if process.started_at == 0.0 or not self._watchers[process.name].is_stopped():
            return
        if process.start_again_at is None:
            if not process.ready.is_set() and process.failures == 0 and not self._running:
                # It never worked: starting it again would only repeat the same error.
                raise StartFailed(f"{process.name} ended before it was ready; see its log above")
            if now - process.started_at > _STABLE_SECONDS:
                process.failures = 0
            delay = _BACK_OFF_SECONDS[min(process.failures, len(_BACK_OFF_SECONDS) - 1)]
            process.failures += 1
            process.start_again_at = now + delay
            self._board.set(process.name, f"ended; starting again in {delay:g} s")
        elif now >= process.start_again_at:
            await self._start(process)

    async def _shut_down(self) -> None:
        """Callers first, so that nobody calls a component that is gone."""
        await self._changing.aclose()
        for name, process in reversed(self._processes.items()):
            watcher = self._watchers[name]
            # At once: who called it is gone already. Before it is ready it knows no signals.
            watcher.stop_signal = signal.SIGINT if process.ready.is_set() else signal.SIGTERM
            watcher.graceful_timeout = _STOP_SECONDS
            await watcher._stop()
        await self._arbiter.stop()
        self._board.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)


async def _first_of(tasks: list[asyncio.Task[Any]]) -> asyncio.Task[Any]:
    """The first task to end; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return next(task for task in tasks if task in done)
