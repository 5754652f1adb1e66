"""Injects a fault into a running graph, and repairs damage that the graph does not repair."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import httpx
import psutil

from auricle_testing.faulty_proxy import Proxy, UnixProxy
from auricle_testing.replicas import InUse, engine_of
from auricle_testing.server import READY_SECONDS, free_port
from benchmarks.faults import disk, hooks, limits
from benchmarks.faults.door import Door
from benchmarks.faults.graph import Graph, until
from benchmarks.faults.kinds import (
    CLIENT,
    COMPONENTS,
    FRONTEND,
    OF_CONNECTIONS,
    REQUEST_PLANE,
    SOCKETS,
)
from benchmarks.faults.memory import scribble
from benchmarks.faults.plan import Fault

# Not the frontend: a session's connection identifies it.
_COUNTED = tuple(name for name in COMPONENTS if name != FRONTEND)
_DELAY_SECONDS = 0.3
_SLOW_BYTES = 16_000.0  # a second: half of 16 kHz PCM
_SECOND_CONNECTION_SECONDS = 0.5


class NotDone(Exception):
    """The fault could not be injected, so that its session does not count."""


@dataclass
class Injection:
    """One fault: `prepare` before its session begins, `begin`, then `end`.

    `detail` names the target and the action.
    """

    graph: Graph
    fault: Fault
    door: Door  # of the fault's own session
    detail: str = ""
    _in_use: InUse | None = None
    _proxies: list[tuple[Proxy | UnixProxy, int]] = field(default_factory=list)
    _victim: psutil.Process | None = None
    _other: asyncio.Task[None] | None = None  # makes the connection that comes later

    @property
    def at_the_start(self) -> bool:
        """Whether it happens while the session's connection is made."""
        return self.fault.of.target == CLIENT and self.fault.of.action == "reorder"

    async def prepare(self) -> None:
        """Note the counters of the target, to find the replica that the session uses."""
        kind = self.fault.of
        if kind.action in OF_CONNECTIONS:
            of_target: Sequence[Proxy | UnixProxy] = self.door.proxies
            if kind.plane == REQUEST_PLANE:
                of_target = await self.graph.route(kind.target)
            elif kind.plane == SOCKETS:
                of_target = self.graph.local(kind.target)
            self._proxies = [(proxy, proxy.bytes_passed) for proxy in of_target]
            if self.at_the_start:
                await self.graph.whole(FRONTEND)  # an earlier fault may have ended one
                self.door.proxies[0].reorder()
                self._other = asyncio.create_task(self._connect_later())
        elif kind.target in _COUNTED and kind.action not in ("drain", "stale_record"):
            self._in_use = await asyncio.to_thread(InUse, self.graph.server, kind.target)

    async def begin(self) -> None:
        """Inject the fault; return once it is done or, if it lasts, once it is over.

        Raises NotDone.
        """
        action: Callable[[], Awaitable[None]] = getattr(self, f"_{self.fault.of.action}")
        try:
            await action()
        except (LookupError, psutil.Error, OSError, httpx.HTTPError) as error:
            raise NotDone(f"{type(error).__name__}: {error}") from error

    async def end(self) -> None:
        """Wait until the target has recovered. Raises AssertionError after 300 s."""
        kind = self.fault.of
        victim = self._victim
        if victim is not None and kind.fatal:
            if kind.action == "fail_jobs":  # it ends only at its next job, which may never come
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
            # The launcher counts the process as ready until it has reaped it.
            await until(lambda: not victim.is_running(), READY_SECONDS)
        if kind.target in COMPONENTS:
            await self.graph.whole(kind.target)

    # ── processes ───────────────────────────────────────────────────────────

    async def _of_target(self) -> psutil.Process:
        if self._in_use is None:
            port = self.door.in_use.address()[1]
            self._victim = await asyncio.to_thread(self.graph.server.listening, FRONTEND, port)
        else:
            self._victim = await asyncio.to_thread(self._in_use.replica)
        self.detail = f"process {self._victim.pid}"
        return self._victim

    async def _engine(self) -> psutil.Process:
        return engine_of(await self._of_target())

    async def _kill(self) -> None:
        (await self._of_target()).kill()

    async def _kill_engine(self) -> None:
        (await self._engine()).kill()

    async def _terminate(self) -> None:
        (await self._of_target()).terminate()

    async def _stop(self) -> None:
        (await self._of_target()).send_signal(signal.SIGSTOP)

    async def _freeze(self) -> None:
        await self._frozen(await self._of_target())

    async def _freeze_engine(self) -> None:
        await self._frozen(await self._engine())

    async def _frozen(self, process: psutil.Process) -> None:
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    async def _block(self) -> None:
        hooks.order(self.graph.orders, await self._of_target(), "block")

    async def _break_nixl(self) -> None:
        hooks.order(self.graph.orders, await self._of_target(), "break_nixl")

    async def _fail_jobs(self) -> None:
        hooks.order(self.graph.orders, await self._of_target(), "fail_jobs")

    async def _set_clock_back(self) -> None:
        hooks.order(self.graph.orders, await self._of_target(), "set_clock_back")

    async def _exhaust_descriptors(self) -> None:
        with limits.no_more_descriptors(await self._of_target()):
            await asyncio.sleep(self.fault.seconds)

    async def _exhaust_memory(self) -> None:
        with limits.no_more_memory(await self._of_target()):
            await asyncio.sleep(self.fault.seconds)

    async def _scribble(self) -> None:
        victim = await self._of_target()
        size = await asyncio.to_thread(scribble, victim)
        self.detail += f", {size} bytes"

    async def _drain(self) -> None:
        target = self.fault.of.target
        await asyncio.to_thread(self.graph.launcher.scale, target, 1)
        await asyncio.to_thread(self.graph.launcher.scale, target, 2)

    # ── discovery, NATS and the disk ────────────────────────────────────────

    async def _stale_record(self) -> None:
        async with self.graph.writing:
            made = await asyncio.to_thread(
                self.graph.records.stale, self.fault.of.target, free_port(), self.fault.seconds
            )
        self.detail = f"{made} endpoints"
        if not made:
            raise NotDone("discovery has no record of the target")

    async def _restart_nats(self) -> None:
        self.graph.nats.end(signal.SIGKILL)
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            self.graph.nats.start()

    async def _fill_disk(self) -> None:
        async with self.graph.writing:
            try:
                size = await asyncio.to_thread(disk.fill, self.graph.folder)
                self.detail = f"{size} bytes"
                await asyncio.sleep(self.fault.seconds)
            finally:
                await asyncio.to_thread(disk.free, self.graph.folder)
                # NATS disables JetStream when the disk is full, until it is restarted.
                await asyncio.to_thread(self.graph.nats.end, signal.SIGTERM)
                self.graph.nats.start()

    async def _none(self) -> None:
        self.detail = "nothing is done"

    # ── connections ─────────────────────────────────────────────────────────

    def _proxy(self) -> Proxy | UnixProxy:
        """The session's own proxy, or the one that has passed most since the session began."""
        if self.fault.of.target == CLIENT:
            proxy: Proxy | UnixProxy = self.door.in_use
            before = next(bytes_passed for one, bytes_passed in self._proxies if one is proxy)
        else:
            if not self._proxies:
                raise NotDone("no call to the target passes a proxy")
            proxy, before = max(self._proxies, key=lambda one: one[0].bytes_passed - one[1])
        passed = proxy.bytes_passed - before
        self.detail = f"{passed} bytes had passed"
        if not passed:
            raise NotDone("nothing of the session passes the proxy")
        return proxy

    async def _delay(self) -> None:
        proxy = self._proxy()
        proxy.delay_seconds = _DELAY_SECONDS
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            proxy.delay_seconds = 0.0

    async def _slow(self) -> None:
        proxy = self._proxy()
        proxy.bytes_per_second = _SLOW_BYTES
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            proxy.bytes_per_second = None

    async def _stall(self) -> None:
        proxy = self._proxy()
        proxy.stall()
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            proxy.go_on()

    async def _cut(self) -> None:
        self._proxy().cut()

    async def _half_open(self) -> None:
        proxy = self._proxy()
        proxy.stall()
        try:
            await asyncio.sleep(self.fault.seconds)
        finally:
            proxy.cut()
            proxy.go_on()

    async def _reorder(self) -> None:
        proxy = self._proxy()
        if self._other is not None:  # the session's connection has been made
            await self._other
        else:
            proxy.reorder()
            proxy.cut()

    async def _connect_later(self) -> None:
        """Open a connection after the session has opened its own, which waits for this one."""
        await asyncio.sleep(_SECOND_CONNECTION_SECONDS)
        async with httpx.AsyncClient(base_url=self.door.urls[0], timeout=10.0) as client:
            (await client.get("/live")).raise_for_status()
