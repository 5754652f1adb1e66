"""Supervises the processes of a graph on this machine: starts, restarts, scales and stops them."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

from auricle.core.aio import TaskOwner, cancelled, run_until
from auricle.core.errors import AuricleError
from auricle.launcher.child import Child
from auricle.launcher.output import RepeatedLines, StatusBoard, is_of_one_request
from auricle.launcher.processes import Process, ProcessFactory, how_ended
from auricle.process.metrics import parse_status, says_alive

_POLL_SECONDS = 0.25
_OWN_LAG_SECONDS = 3.0
# From the end of its drain until a process is killed: in it, requests in flight end (10 s), tasks
# are cancelled (5 s), and memory is given back.
_STOP_SECONDS = 20.0
_KILLED_SECONDS = 5.0  # a process that the kernel cannot end is not waited for


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
        factory: ProcessFactory,
        board: StatusBoard,
        on_status: Callable[[Process, str], None] = lambda _process, _status: None,
    ) -> None:
        self._processes = {p.name: p for p in processes}
        self._factory = factory
        self._board = board
        self._on_status = on_status
        self._repeated = RepeatedLines(board.log)
        self._running = False  # all processes have been ready once
        self._stop_requested = asyncio.Event()
        self._skip_drains = asyncio.Event()
        self._error: BaseException | None = None  # what ends `run`, unless a stop was requested
        self._tasks = TaskOwner(lambda _name, error: self._fail(error))
        self._clean_ups: set[asyncio.Task[None]] = set()
        board.on_closed = self.terminate
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        loop.add_signal_handler(signal.SIGINT, self.stop)

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
        process ends, or exceeds its deadline, before all are ready. On return or error no
        process is left.
        """
        starting = self._tasks.start(self._start_groups(groups, on_ready), "start")
        checking = self._tasks.start(self._check_liveness(), "check liveness")
        try:
            await self._stop_requested.wait()
            if starting.done():
                # What still serves is still restarted.
                await self._stop_in(stop_order)
        finally:
            self.stop()
            await cancelled([starting, checking])
            await self._stop_in(stop_order)
            if self._clean_ups:
                await asyncio.wait(self._clean_ups)
            await self._tasks.aclose()
            self._board.stop()
        if self._error is not None:
            raise self._error

    def terminate(self) -> None:
        """Request a stop with drains; the second request skips them."""
        if self._stop_requested.is_set():
            self._skip_drains.set()
        self._stop_requested.set()

    def stop(self) -> None:
        """Request a stop without drains."""
        self._stop_requested.set()
        self._skip_drains.set()

    def _fail(self, error: BaseException) -> None:
        """End `run` with an error."""
        if not self._stop_requested.is_set():
            self._error = error
        self.stop()

    async def _start_groups(self, groups: list[list[str]], on_ready: Callable[[], None]) -> None:
        for group in groups:
            for name in group:
                self._start(self._processes[name])
            for name in group:
                process = self._processes[name]
                try:
                    async with asyncio.timeout(process.ready_seconds):
                        await process.ready.wait()
                except TimeoutError:
                    self._fail(StartFailed(f"{name} was not ready in {process.ready_seconds:g} s"))
                    return
        self._running = True
        on_ready()

    async def _stop_in(self, order: Sequence[Sequence[str]]) -> None:
        """Stop the processes of each group of components, when those before have ended."""
        if not self._skip_drains.is_set():
            longest = max((p.drain_seconds for p in self._processes.values()), default=0.0)
            self._board.log(
                "launcher",
                f"stopping when sessions and recordings have ended, after {longest:g} s at the "
                "latest; Ctrl-C or a second SIGTERM stops at once",
            )
        for components in order:
            group = [p for p in self._processes.values() if p.component in components]
            if group:
                await asyncio.wait([self._stop(process) for process in group])

    # ── one process ─────────────────────────────────────────────────────────

    def _start(self, process: Process) -> None:
        process.runner = self._tasks.start(self._keep_running(process), f"run {process.name}")

    async def _keep_running(self, process: Process) -> None:
        """Run a process and restart it whenever it ends, until it is stopped."""
        while True:
            await self._run_once(process)
            if process.leaving:
                return
            if not process.ready.is_set() and not process.back_off.deaths and not self._running:
                # It has never been ready: a restart would repeat the same error.
                reason = f"{process.name} {process.end} before it was ready; see its log above"
                self._fail(StartFailed(reason))
                return
            healthy = process.healthy_seconds(time.monotonic())
            pause = process.back_off.pause(healthy, process.start_seconds)
            process.ready.clear()
            when = f"in {pause:g} s" if pause else "at once"
            self._board.set(process.name, f"{process.end}; starting again {when}")
            await asyncio.sleep(pause)

    async def _run_once(self, process: Process) -> None:
        process.alive_at = process.ready_at = process.hung_at = None
        process.started_at = time.monotonic()
        self._board.set(process.name, "starting")
        try:
            process.child = child = await Child.start(
                process.command, process.environment, partial(self._read_line, process)
            )
        except OSError as error:
            process.end = f"could not be started ({error.strerror})"
            return
        process.end = how_ended(await child.wait())
        process.child = None
        clean_up = self._tasks.start(self._clean_up(process, child), f"clean up {process.name}")
        self._clean_ups.add(clean_up)
        clean_up.add_done_callback(self._clean_ups.discard)

    async def _clean_up(self, process: Process, child: Child) -> None:
        if (killed := await child.clean_up()) is not None:
            self._board.log(process.name, killed)

    def _stop(self, process: Process) -> asyncio.Task[None]:
        """Return the task that stops a process; start it if there is none."""
        if process.stopping is None:
            process.stopping = self._tasks.start(
                self._stop_process(process), f"stop {process.name}"
            )
        return process.stopping

    async def _stop_process(self, process: Process) -> None:
        """Stop a process; kill it if it exceeds its deadline.

        The deadline is 20 s after its `drain_seconds`, or 20 s after drains are skipped.
        """
        runner, child = process.runner, process.child
        if runner is None:
            return
        if child is not None:
            drains = process.ready.is_set() and not self._skip_drains.is_set()
            if drains:
                child.send_signal(signal.SIGTERM)
                seconds = process.drain_seconds + _STOP_SECONDS
                await run_until(self._skip_drains, asyncio.wait([runner], timeout=seconds))
            if not runner.done() and (self._skip_drains.is_set() or not drains):
                # A process that is not ready handles no signal, so SIGTERM ends it at once.
                child.send_signal(signal.SIGINT if process.ready.is_set() else signal.SIGTERM)
                await asyncio.wait([runner], timeout=_STOP_SECONDS)
            if not runner.done():
                child.send_group_signal(signal.SIGKILL)
                await asyncio.wait([runner], timeout=_KILLED_SECONDS)
        await cancelled([runner])

    # ── output and liveness of processes ────────────────────────────────────

    def _read_line(self, process: Process, line: str) -> None:
        if says_alive(line):
            process.alive_at = time.monotonic()
        elif (status := parse_status(line)) is not None:
            self._set_status(process, status)
        elif line and not is_of_one_request(line) and self._repeated.passes(process.name, line):
            self._board.log(process.name, line)

    def _set_status(self, process: Process, status: str) -> None:
        self._board.set(process.name, status)
        self._on_status(process, status)
        if status == "ready":
            process.ready_at = time.monotonic()
            process.start_seconds = process.ready_at - process.started_at
            process.ready.set()

    async def _check_liveness(self) -> None:
        """Kill processes that hang, which are then restarted; log counts of repeated lines."""
        checked = time.monotonic()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self._repeated.sum_up()
            before, checked = checked, time.monotonic()
            for process in self._processes.values():
                if process.alive_at is not None and checked - before > _OWN_LAG_SECONDS:
                    process.alive_at = checked  # the launcher itself hung
                if process.child is not None and process.hangs(checked):
                    self._kill_hung(process, process.child)

    def _kill_hung(self, process: Process, child: Child) -> None:
        """Kill a process that hangs, with its children."""
        self._board.log(
            process.name, f"has not answered for {process.liveness_seconds:g} s: killed"
        )
        process.hung_at, process.alive_at = process.alive_at, None
        child.send_group_signal(signal.SIGKILL)

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

    def scale(self, component: str, replicas: int) -> None:
        """Start or drain processes of a component; return before they are ready or have ended.

        Does nothing while the graph is being stopped.
        """
        if self._stop_requested.is_set():
            return
        staying = self._staying(component)
        for process in staying[replicas:]:
            self._stop(process).add_done_callback(partial(self._remove, process))
        # Draining processes keep their numbers, because they still use their GPU and port.
        taken = {p.number for p in self._processes.values() if p.component == component}
        numbers = (n for n in itertools.count(1) if n not in taken)
        for number in itertools.islice(numbers, max(0, replicas - len(staying))):
            process = self._factory.make(component, number)
            self._processes[process.name] = process
            self._board.add(process.name)
            self._start(process)

    def _staying(self, component: str) -> list[Process]:
        of_component = (p for p in self._processes.values() if p.component == component)
        return [p for p in of_component if not p.leaving]

    def _remove(self, process: Process, _stopped: asyncio.Task[None]) -> None:
        del self._processes[process.name]
        self._board.remove(process.name)
