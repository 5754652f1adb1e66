"""Supervises the processes of a graph on this machine.

circus starts, signals and reaps the processes. This module adds what circus lacks: starting
groups of processes in order as they become ready, restarts with back-off, and draining.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from circus.arbiter import Arbiter
from tornado.ioloop import IOLoop

from auricle.errors import AuricleError
from auricle.launcher.floods import Floods
from auricle.launcher.leftovers import Leftovers
from auricle.launcher.log_lines import is_of_one_request
from auricle.launcher.output import OutputWatcher, watcher_of
from auricle.launcher.processes import MakesProcesses, Process
from auricle.launcher.status_board import StatusBoard
from auricle.launcher.stopping import Stopping
from auricle.process.status import parse_status, says_alive
from auricle.tasks import TaskOwner, cancelled, first_of

_POLL_SECONDS = 0.25
_READY_SECONDS = 300.0
_OWN_LAG_SECONDS = 3.0


class StartFailed(AuricleError):
    """A process ended, or exceeded its deadline, before it was ready."""


class Supervisor:
    """Starts processes in order, restarts those that end, and stops all of them.

    Make it on a running event loop in the main thread, as it installs handlers of SIGINT and
    SIGTERM. Not thread-safe. `on_status` is called on the loop with every status of a process.
    """

    def __init__(
        self,
        processes: list[Process],
        factory: MakesProcesses,
        board: StatusBoard,
        on_status: Callable[[Process, str], None] = lambda _process, _status: None,
    ) -> None:
        self._processes = {p.name: p for p in processes}
        self._factory = factory
        self._changing = TaskOwner()
        self._drains: dict[str, asyncio.Task[None]] = {}  # in progress, by name of the process
        self._board = board
        self._on_status = on_status
        self._stopping = Stopping()
        self._leftovers = Leftovers(board.log)
        self._floods = Floods(board.log)
        self._running = False  # all processes have been ready once
        board.on_closed = self._stopping.terminate
        logging.getLogger("circus").setLevel(logging.ERROR)
        watchers = [self._watcher(p) for p in processes]
        self._watchers: dict[str, OutputWatcher] = {w.name: w for w in watchers}
        self._arbiter = Arbiter(
            watchers,
            # circus wants to be reached, and whoever reaches it commands every process: nobody can.
            # An address is taken until ZeroMQ has closed its socket, some time after an arbiter.
            endpoint=f"inproc://control-{uuid.uuid4()}",
            pubsub_endpoint=f"inproc://events-{uuid.uuid4()}",
            check_delay=-1,  # `_watch` manages the watchers instead
            proc_name="auricle serve",
            loop=IOLoop.current(),
        )
        loop = asyncio.get_running_loop()
        # Instead of circus's handlers.
        loop.add_signal_handler(signal.SIGTERM, self._stopping.terminate)
        loop.add_signal_handler(signal.SIGINT, self._stopping.interrupt)

    def _watcher(self, process: Process) -> OutputWatcher:
        return watcher_of(process, lambda line: self._heard(process, line), self._leftovers.end)

    # ── output of processes ─────────────────────────────────────────────────

    def _heard(self, process: Process, line: str) -> None:
        if says_alive(line):
            process.alive_at = time.monotonic()
        elif (status := parse_status(line)) is not None:
            self._status(process, status)
        elif line and not is_of_one_request(line) and self._floods.passes(process.name, line):
            self._board.log(process.name, line)

    def _status(self, process: Process, status: str) -> None:
        process.statuses.append(status)
        self._board.set(process.name, status)
        self._on_status(process, status)
        if status == "ready":
            process.ready_at = time.monotonic()
            process.start_seconds = process.ready_at - process.started_at
            process.ready.set()

    # ── start and stop ──────────────────────────────────────────────────────

    async def run(
        self,
        groups: list[list[str]],
        on_ready: Callable[[], None],
        stop_order: Sequence[Sequence[str]],
    ) -> None:
        """Start the groups one after the other, then restart processes that end, until stopped.

        `groups` are names of processes; a group starts once the one before is ready.
        `on_ready` is called once all are. SIGTERM drains the components of `stop_order`, callers
        before callees; SIGINT or a second SIGTERM stops them without. Raises StartFailed if a
        process ends, or is not ready within 300 s, before all are ready. On return or error no
        process is left.
        """
        tasks: list[asyncio.Task[Any]] = []
        try:
            await self._arbiter.start()
            stopping = asyncio.create_task(self._stopping.wait())
            watching = asyncio.create_task(self._watch())
            starting = asyncio.create_task(self._start_groups(groups))
            tasks = [stopping, watching, starting]
            if await first_of(tasks) is starting:
                self._running = True
                on_ready()
                await first_of([stopping, watching])
                # What still serves is still restarted.
                await self._stop_in(stop_order)
        finally:
            self._stopping.interrupt()
            await cancelled(tasks)
            await self._shut_down(stop_order)

    def stop(self) -> None:
        """Ask `run` to end without a drain."""
        self._stopping.interrupt()

    # ── scaling ─────────────────────────────────────────────────────────────

    def counts(self) -> dict[str, dict[str, int]]:
        """Return by component `replicas`, without draining processes, and how many are `ready`."""
        return {
            component: {
                "replicas": len(staying := self._staying(component)),
                "ready": sum(p.ready.is_set() for p in staying),
            }
            for component in self._factory.components
        }

    def start_seconds(self, component: str) -> float:
        """Return the longest of the last start times of a component's processes, in seconds."""
        return max(p.start_seconds for p in self._staying(component))

    async def scale(self, component: str, replicas: int) -> None:
        """Start or drain processes of a component; return before they are ready or have ended.

        Does nothing while the graph is being stopped.
        """
        if self._stopping.asked:
            return
        staying = self._staying(component)
        for process in staying[replicas:]:
            process.leaving = True
            drain = self._changing.start(self._drain(process), f"drain {process.name}")
            self._drains[process.name] = drain
        # Draining processes keep their numbers, because they still use their GPU and port.
        taken = {p.number for p in self._processes.values() if p.component == component}
        numbers = (n for n in itertools.count(1) if n not in taken)
        missing = itertools.islice(numbers, max(0, replicas - len(staying)))
        added = [self._factory.make(component, number) for number in missing]
        # Register all of them before the first await: a concurrent call must not make them again.
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
        """Add a watcher for a process to the running arbiter."""
        watcher = self._watcher(process)
        watcher.initialize(self._arbiter.evpub_socket, self._arbiter.sockets, self._arbiter)
        self._watchers[process.name] = watcher
        self._arbiter.watchers.append(watcher)

    async def _drain(self, process: Process) -> None:
        """Stop a process after it has drained, and remove it."""
        watcher = self._watchers[process.name]
        await self._stopping.end(process, watcher)
        self._arbiter.watchers.remove(watcher)
        del self._watchers[process.name], self._processes[process.name]
        del self._drains[process.name]
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
        process.start_again_at = process.exit_code = process.alive_at = None
        process.ready_at = process.hung_at = None
        process.started_at = time.monotonic()
        self._board.set(process.name, "starting")
        await self._watchers[process.name]._start()

    async def _watch(self) -> None:
        """Reap processes that have ended and restart them."""
        looked = time.monotonic()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self._floods.sum_up()
            await self._arbiter.manage_watchers()
            before, looked = looked, time.monotonic()
            for process in list(self._processes.values()):
                if process.alive_at is not None and looked - before > _OWN_LAG_SECONDS:
                    process.alive_at = looked  # it was the launcher that hung
                if process.hangs(looked):
                    self._kill(process)
                if not process.leaving:
                    await self._look_at(process)

    def _kill(self, process: Process) -> None:
        """End a process that hangs, with what it has started; it is then started again."""
        self._board.log(
            process.name, f"has not answered for {process.liveness_seconds:g} s: killed"
        )
        process.hung_at, process.alive_at = process.alive_at, None
        for pid in list(self._watchers[process.name].processes):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    async def _look_at(self, process: Process) -> None:
        now = time.monotonic()
        if process.started_at == 0.0 or not self._watchers[process.name].is_stopped():
            return
        if process.start_again_at is None:
            self._watchers[process.name].output.catch_up()
            if not process.ready.is_set() and not process.back_off.deaths and not self._running:
                # It has never been ready: a restart would repeat the same error.
                raise StartFailed(
                    f"{process.name} {process.end} before it was ready; see its log above"
                )
            pause = process.back_off.pause(process.healthy_seconds(now), process.start_seconds)
            process.start_again_at = now + pause
            process.ready.clear()
            when = f"in {pause:g} s" if pause else "at once"
            self._board.set(process.name, f"{process.end}; starting again {when}")
        if now >= process.start_again_at:
            await self._start(process)

    async def _stop_in(self, order: Sequence[Sequence[str]]) -> None:
        """Stop the processes of each group of components, when those before have ended."""
        if not self._stopping.hurried:
            longest = max((p.drain_seconds for p in self._processes.values()), default=0.0)
            self._board.log(
                "launcher",
                f"stopping when sessions and recordings have ended, after {longest:g} s at the "
                "latest; Ctrl-C or a second SIGTERM stops at once",
            )
        for components in order:
            group = [p for p in self._processes.values() if p.component in components]
            for process in group:
                process.leaving = True
            await asyncio.gather(*(self._end(process) for process in group))

    async def _end(self, process: Process) -> None:
        if (drain := self._drains.get(process.name)) is not None:
            await asyncio.wait([drain])
        else:
            await self._stopping.end(process, self._watchers[process.name])

    async def _shut_down(self, stop_order: Sequence[Sequence[str]]) -> None:
        """Stop what still runs, without draining it."""
        await self._stop_in(stop_order)
        await self._changing.aclose()
        await self._arbiter.stop()
        await self._leftovers.gone()
        self._board.stop()
