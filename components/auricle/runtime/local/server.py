"""The end of the process that is called by others of its machine."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from auricle.errors import BadRequest, WorkerUnavailable
from auricle.runtime.local.metrics import LocalMetrics
from auricle.runtime.local.serving import Handler, Served
from auricle.runtime.local.sockets import listening
from auricle.tasks import TaskOwner, cancelled

log = logging.getLogger(__name__)
_ACCEPT_AGAIN_SECONDS = 1.0


class LocalServer:
    """Serves this process's endpoints to other processes of its machine, at a Unix socket."""

    def __init__(
        self,
        path: Path,
        handlers: Mapping[str, Handler],
        metrics: LocalMetrics,
        tasks: TaskOwner,
    ) -> None:
        """`handlers` are those of the endpoints by their names, as `handling.handler` returns.

        `tasks` hears if the process accepts no more connections; calls under way are the
        server's own.
        """
        self._path = path
        self._handlers = handlers
        self._metrics = metrics
        self._tasks = tasks
        self._calls = TaskOwner()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[Served] = set()
        self._leaving = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0

    async def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be made."""
        listener = self._listener = await asyncio.to_thread(listening, self._path)
        self._accepting = self._tasks.start(self._accept(listener), "accepting local calls")

    async def leave(self) -> None:
        """Refuse new calls; return when none is under way. The caller sets the deadline."""
        self._leaving = True
        self._path.unlink(missing_ok=True)
        await self._idle.wait()

    async def close(self) -> None:
        """End all connections, and what is still under way."""
        self._path.unlink(missing_ok=True)
        if self._accepting is not None:
            await cancelled([self._accepting])
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            connection.abort()
        await self._calls.aclose()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections for ever.

        asyncio's own servers end their listener for good when a connection cannot be accepted
        for want of descriptors.
        """
        loop, told = asyncio.get_running_loop(), False
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                if not told:
                    log.warning("a process of this machine must wait to connect: %s", error)
                told = True
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            told = False
            try:
                await loop.connect_accepted_socket(lambda: Served(self), accepted)
            except OSError as error:
                log.info("a process of this machine has connected and gone: %s", error)
                accepted.close()

    # ── what connections tell it ────────────────────────────────────────────

    def handler(self, endpoint: str) -> Handler:
        """Return the endpoint's handler. Raises AuricleError if it is not, or no more, served."""
        if self._leaving:
            raise WorkerUnavailable("the process is stopping")
        if (found := self._handlers.get(endpoint)) is None:
            raise BadRequest(f"there is no endpoint {endpoint[:100]!r} here")
        return found

    def begins(self, answering: Coroutine[Any, Any, None], name: str) -> None:
        """A call begins: run what answers it."""
        self._under_way += 1
        self._idle.clear()
        self._metrics.calls.inc()
        self._metrics.in_flight.set(self._under_way)
        self._calls.start(answering, name)

    def ended(self) -> None:
        """A call has ended."""
        self._under_way -= 1
        self._metrics.in_flight.set(self._under_way)
        if self._under_way == 0:
            self._idle.set()

    def connected(self, connection: Served) -> None:
        """Another process has connected."""
        self._connections.add(connection)
        self._metrics.connections.set(len(self._connections))

    def disconnected(self, connection: Served) -> None:
        """It has left."""
        self._connections.discard(connection)
        self._metrics.connections.set(len(self._connections))
