"""The end of the process that is called by others of its machine."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry

from auricle.core.aio import TaskOwner, cancelled
from auricle.core.errors import AuricleError, BadRequest, Overloaded, WorkerUnavailable
from auricle.dynamo.local.client import LocalCalls
from auricle.dynamo.local.frames import (
    AHEAD,
    REPORTED,
    BadFrame,
    FrameReader,
    Kind,
    LocalMetrics,
    begun,
    listening,
    packed,
    socket_path,
)
from auricle.dynamo.wire import encoded, packed_from_wire, sealed_to_wire
from auricle.protocol.control import Refusal

log = logging.getLogger(__name__)

# Limits of the calls in progress on one connection: their number, and the bytes of their requests.
_MOST_CALLS = 8192
_MOST_BYTES = 256 * 2**20
Handler = Callable[[Any, Any], AsyncGenerator[Any, None]]


class Caller:
    """The caller of one call: whether it still waits, and how many replies it can take.

    `async_killed_or_stopped` has the name of the method of Dynamo's request context.
    """

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self._room = AHEAD
        self._left = asyncio.Event()
        self._may_go_on = asyncio.Event()  # it has room, or has left
        self._may_go_on.set()

    async def async_killed_or_stopped(self) -> None:
        """Wait until the caller has left."""
        await self._left.wait()

    async def ready(self) -> bool:
        """Wait until it can take one more reply; return whether it still waits for any."""
        await self._may_go_on.wait()
        self._room -= 1
        if self._room <= 0 and not self._left.is_set():
            self._may_go_on.clear()
        return not self._left.is_set()

    def took(self, replies: int) -> None:
        """Add room for more replies, as the caller has taken some."""
        self._room += replies
        if self._room > 0:
            self._may_go_on.set()

    def leave(self) -> None:
        """Mark the call as cancelled, or the caller as gone."""
        self._left.set()
        self._may_go_on.set()


class Served(asyncio.Protocol):
    """A connection from another process, with all its calls in progress."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._reader = FrameReader()
        self._callers: dict[int, Caller] = {}
        self._request_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._transport = transport
        self._server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        for caller in self._callers.values():
            caller.leave()
        self._server.disconnected(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            for kind, number, content in self._reader.feed(data):
                self._take(kind, number, content)
        except BadFrame as error:
            log.error("a process of this machine does not speak our protocol: %s", error)
            self.abort()

    def _take(self, kind: int, number: int, content: bytes) -> None:
        caller = self._callers.get(number)
        if kind == Kind.CALL:
            if caller is not None:
                raise BadFrame(f"call {number} begins twice")
            self._begin(number, *begun(content))
        elif caller is None:
            return  # the call has ended meanwhile
        elif kind == Kind.STOP:
            caller.leave()
        elif kind == Kind.TAKEN:
            caller.took(REPORTED)
        else:
            raise BadFrame(f"a frame of kind {kind}")

    def _begin(self, number: int, endpoint: str, sealed: bytes) -> None:
        try:
            handler = self._server.handler(endpoint)
            self._check_room(len(sealed))
        except AuricleError as error:
            self._refuse(number, error)
            self._write(Kind.END, number)
            return
        caller = self._callers[number] = Caller(len(sealed))
        self._request_bytes += caller.request_bytes
        work = self._answer(number, caller, handler(sealed_to_wire(sealed), caller))
        self._server.begins(work, f"call of {endpoint}")

    def _check_room(self, more: int) -> None:
        if len(self._callers) >= _MOST_CALLS or self._request_bytes + more > _MOST_BYTES:
            raise Overloaded(
                f"{len(self._callers)} calls of {self._request_bytes} bytes are in progress from "
                f"the process; at most {_MOST_CALLS} of {_MOST_BYTES} bytes may be"
            )

    async def _answer(
        self, number: int, caller: Caller, replies: AsyncGenerator[Any, None]
    ) -> None:
        """Send each reply once the caller and the connection have room for it."""
        try:
            async with aclosing(replies) as out:
                async for reply in out:
                    if not await caller.ready():
                        break
                    # All waiting calls are woken together, and the first may have filled it again.
                    while not self._writable.is_set():
                        await self._writable.wait()
                    self._write(Kind.REPLY, number, packed_from_wire(reply))
        except Exception as error:
            # Handlers reply with their own errors. Without this a stream would look complete.
            self._refuse(number, AuricleError("the call failed; see its worker's log"))
            log.exception("a local call failed: %s", error)
        finally:
            del self._callers[number]
            self._request_bytes -= caller.request_bytes
            self._server.ended()
            self._write(Kind.END, number)

    def _refuse(self, number: int, error: AuricleError) -> None:
        refusal = Refusal(error.code, str(error), error.keys, error.retry_after_seconds)
        self._write(Kind.REPLY, number, encoded(refusal))

    def _write(self, kind: Kind, number: int, content: bytes = b"") -> None:
        if self._transport is not None:
            self._transport.write(packed(kind, number, content))


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
        """`handlers` are from `handling.handler`, by the endpoint's name.

        `tasks` owns the task that accepts connections. The server owns the calls in progress.
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
        self._in_progress = 0

    async def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be made."""
        listener = self._listener = await asyncio.to_thread(listening, self._path)
        self._accepting = self._tasks.start(self._accept(listener), "accepting local calls")

    async def leave(self) -> None:
        """Refuse new calls; return when none is in progress. The caller sets the deadline."""
        self._leaving = True
        self._path.unlink(missing_ok=True)
        await self._idle.wait()

    async def close(self) -> None:
        """End all connections and calls."""
        self._path.unlink(missing_ok=True)
        if self._accepting is not None:
            await cancelled([self._accepting])
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            connection.abort()
        await self._calls.aclose()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled.

        asyncio's own servers close their listener if a connection cannot be accepted because
        descriptors are used up.
        """
        loop, logged = asyncio.get_running_loop(), False
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                if not logged:
                    log.warning("cannot accept local connections, retrying: %s", error)
                logged = True
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            logged = False
            try:
                await loop.connect_accepted_socket(lambda: Served(self), accepted)
            except OSError as error:
                log.info("local connection closed during accept: %s", error)
                accepted.close()

    # ── called by connections ───────────────────────────────────────────────

    def handler(self, endpoint: str) -> Handler:
        """Return the endpoint's handler. Raises AuricleError if it is not served (any more)."""
        if self._leaving:
            raise WorkerUnavailable("the process is stopping")
        if (found := self._handlers.get(endpoint)) is None:
            raise BadRequest(f"this process has no endpoint {endpoint[:100]!r}")
        return found

    def begins(self, answering: Coroutine[Any, Any, None], name: str) -> None:
        """Run the coroutine that answers a call."""
        self._in_progress += 1
        self._idle.clear()
        self._metrics.calls.inc()
        self._metrics.in_flight.set(self._in_progress)
        self._calls.start(answering, name)

    def ended(self) -> None:
        self._in_progress -= 1
        self._metrics.in_flight.set(self._in_progress)
        if self._in_progress == 0:
            self._idle.set()

    def connected(self, connection: Served) -> None:
        self._connections.add(connection)
        self._metrics.connections.set(len(self._connections))

    def disconnected(self, connection: Served) -> None:
        self._connections.discard(connection)
        self._metrics.connections.set(len(self._connections))


class LocalPlane:
    """Serves and calls processes of this machine; does nothing without a directory for sockets.

    `calls` is None then.
    """

    def __init__(self, directory: Path | None, registry: CollectorRegistry) -> None:
        self._directory = directory
        self._metrics = LocalMetrics(registry)
        self.calls = None if directory is None else LocalCalls(directory)
        self._server: LocalServer | None = None

    async def serve(self, instance: int, handlers: Mapping[str, Handler], tasks: TaskOwner) -> None:
        """Serve these endpoints of this process, which is `instance` in discovery.

        `tasks` owns the task that accepts connections.
        """
        if self._directory is None or not handlers:
            return
        path = socket_path(self._directory, instance)
        server = LocalServer(path, handlers, self._metrics, tasks)
        try:
            await server.start()
        except OSError as error:
            log.warning("cannot open the local socket, so local calls take longer: %s", error)
        else:
            self._server = server

    async def leave(self) -> None:
        """Refuse new calls; return when none is in progress here."""
        if self._server is not None:
            await self._server.leave()

    async def close(self) -> None:
        """End all connections and calls."""
        if self._server is not None:
            await self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """End the connections to other processes."""
        if self.calls is not None:
            self.calls.close()
