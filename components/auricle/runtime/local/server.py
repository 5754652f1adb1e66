"""The end of the process that is called by others of its machine."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from auricle.errors import AuricleError, BadRequest, Overloaded, WorkerUnavailable
from auricle.messages import Refusal
from auricle.runtime.local.frames import (
    AHEAD,
    REPORTED,
    BadFrame,
    FrameReader,
    Kind,
    begun,
    packed,
)
from auricle.runtime.wire import encoded, packed_from_wire, sealed_to_wire
from auricle.tasks import TaskOwner

log = logging.getLogger(__name__)
_MOST_CALLS = 8192  # under way on one connection
_BACKLOG = 128
Handler = Callable[[Any, Any], AsyncGenerator[Any, None]]


class _Caller:
    """Who made one call: whether it still waits, and how many replies it may be sent.

    Its method `async_killed_or_stopped` is that of Dynamo's request context.
    """

    def __init__(self) -> None:
        self._room = AHEAD
        self._left = asyncio.Event()
        self._may_go_on = asyncio.Event()  # it has room, or has left
        self._may_go_on.set()

    async def async_killed_or_stopped(self) -> None:
        """Wait until the caller has left."""
        await self._left.wait()

    async def ready(self) -> bool:
        """Wait until it may be sent one more reply; return whether it still waits for any."""
        await self._may_go_on.wait()
        self._room -= 1
        if self._room <= 0 and not self._left.is_set():
            self._may_go_on.clear()
        return not self._left.is_set()

    def took(self, replies: int) -> None:
        """It has taken so many more."""
        self._room += replies
        if self._room > 0:
            self._may_go_on.set()

    def leave(self) -> None:
        """It wants no more replies, or has gone."""
        self._left.set()
        self._may_go_on.set()


class LocalServer:
    """Serves this process's endpoints to other processes of its machine, at a Unix socket."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        """`handlers` are those of the endpoints by their names, as `handling.handler` returns."""
        self._path = path
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._connections: set[_Served] = set()
        self.tasks = TaskOwner()
        self.leaving = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0

    async def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be made."""
        listener = await asyncio.to_thread(_listener, self._path)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Served(self), sock=listener)

    async def leave(self) -> None:
        """Refuse new calls; return when none is under way. The caller sets the deadline."""
        self.leaving = True
        self._path.unlink(missing_ok=True)
        await self._idle.wait()

    async def close(self) -> None:
        """End all connections, and what is still under way."""
        self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        await self.tasks.aclose()

    def handler(self, endpoint: str) -> Handler:
        """Return the endpoint's handler. Raises AuricleError if it is not, or no more, served."""
        if self.leaving:
            raise WorkerUnavailable("the process is stopping")
        if (found := self._handlers.get(endpoint)) is None:
            raise BadRequest(f"there is no endpoint {endpoint[:100]!r} here")
        return found

    def begins(self) -> None:
        """A call begins."""
        self._under_way += 1
        self._idle.clear()

    def ended(self) -> None:
        """A call has ended."""
        self._under_way -= 1
        if self._under_way == 0:
            self._idle.set()

    def connected(self, connection: _Served) -> None:
        """Another process has connected."""
        self._connections.add(connection)

    def disconnected(self, connection: _Served) -> None:
        """It has left."""
        self._connections.discard(connection)


class _Served(asyncio.Protocol):
    """One connection, from a process that calls this one."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._reader = FrameReader()
        self._callers: dict[int, _Caller] = {}
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
            if len(self._callers) >= _MOST_CALLS:
                raise Overloaded(f"{_MOST_CALLS} calls from the process are under way")
        except AuricleError as error:
            self._write(Kind.REPLY, number, encoded(Refusal(error.code, str(error))))
            self._write(Kind.END, number)
            return
        caller = self._callers[number] = _Caller()
        self._server.begins()
        work = self._answer(number, caller, handler(sealed_to_wire(sealed), caller))
        self._server.tasks.start(work, f"call of {endpoint}")

    async def _answer(
        self, number: int, caller: _Caller, replies: AsyncGenerator[Any, None]
    ) -> None:
        """Send the replies, each once the caller and the connection have room for it."""
        try:
            async with aclosing(replies) as out:
                async for reply in out:
                    if not await caller.ready():
                        break
                    await self._writable.wait()
                    self._write(Kind.REPLY, number, packed_from_wire(reply))
        finally:
            del self._callers[number]
            self._server.ended()
            self._write(Kind.END, number)

    def _write(self, kind: Kind, number: int, content: bytes = b"") -> None:
        if self._transport is not None:
            self._transport.write(packed(kind, number, content))


def _listener(path: Path) -> socket.socket:
    """Return a listening socket at `path`; remove those that dead processes have left."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in path.parent.iterdir():
        if not other.suffix and _dead(other):
            other.unlink(missing_ok=True)
    # It gets its name once it listens: others take one that does not for a dead process's.
    draft = path.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(draft))
        listener.listen(_BACKLOG)
        draft.rename(path)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _dead(path: Path) -> bool:
    """Whether the socket at `path` has no process any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # it is busy, or has just gone
            return False
        return False
