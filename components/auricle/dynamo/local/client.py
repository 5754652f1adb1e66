"""The caller's end of a connection to another process of this machine."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path
from typing import Any, cast

from auricle.core.errors import BadRequest, Overloaded
from auricle.dynamo.local.frames import (
    REPORTED,
    BadFrame,
    FrameReader,
    Kind,
    check_private,
    packed,
    socket_path,
)
from auricle.dynamo.wire import packed_to_wire

log = logging.getLogger(__name__)
_MOST_CALLS = 8192  # in progress on one connection
WRITE_AHEAD_BYTES = 2**20  # unsent; then calls wait before they begin


class LocalCall:
    """A call in progress: iterate over its replies, which have the form of the request plane."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._ready: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Exception | None = None
        self._taken = 0

    def __aiter__(self) -> LocalCall:
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Raises ConnectionError if the connection is lost before the call has ended."""
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._taken += 1
        if self._taken == REPORTED:
            self._taken = 0
            self._connection.send(Kind.TAKEN, self._number)
        return packed_to_wire(self._ready.popleft())

    def stop(self) -> None:
        """End the call; the other side cancels it, unless it has ended."""
        self._connection.forget(self._number)

    def replied(self, reply: bytes) -> None:
        """Add the next reply. Only the connection calls this, `end` and `fail`."""
        self._ready.append(reply)
        self._wake()

    def end(self) -> None:
        """Mark the last reply."""
        self._ended = True
        self._wake()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """A connection, with all its calls in progress. Use it on one event loop."""

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._calls: dict[int, LocalCall] = {}
        self._last = 0
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait in this process, without the kernel's buffer."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def begin(self, endpoint: str, sealed: bytes) -> LocalCall:
        """Send a request to an endpoint of the other process; return the call.

        Waits while much is unsent. Raises ConnectionError if the connection is lost, Overloaded
        if 8,192 calls are in progress, and BadRequest if the request is larger than 64 MiB.
        """
        # All waiting callers are woken together, and the first may have filled it again.
        while not self._writable.is_set():
            await self._writable.wait()
        if self.lost or self._transport is None:
            raise ConnectionError("the connection was lost")
        if len(self._calls) >= _MOST_CALLS:
            raise Overloaded(f"{_MOST_CALLS} calls to the process are in progress")
        number = self._free_number()
        try:
            frame = packed(Kind.CALL, number, endpoint.encode(), b"\0", sealed)
        except ValueError:  # nothing is wrong with the other process
            raise BadRequest(f"a call of {len(sealed)} bytes; at most 64 MiB fit") from None
        call = self._calls[number] = LocalCall(self, number)
        self._transport.write(frame)
        return call

    def send(self, kind: Kind, number: int) -> None:
        """Send a frame without content, unless its call has ended."""
        if number in self._calls and self._transport is not None:
            self._transport.write(packed(kind, number))

    def forget(self, number: int) -> None:
        """End a call that has not ended."""
        self.send(Kind.STOP, number)
        self._calls.pop(number, None)

    def abort(self) -> None:
        """Close the connection at once; calls in progress fail."""
        if self._transport is not None:
            self._transport.abort()

    def _free_number(self) -> int:
        while True:
            self._last = (self._last + 1) % 2**32
            if self._last not in self._calls:
                return self._last

    # ── asyncio's side ──────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except BadFrame as error:
            log.error("a process of this machine does not speak our protocol: %s", error)
            self.abort()
            return
        for kind, number, content in frames:
            # Replies to a stopped call may still arrive.
            if (call := self._calls.get(number)) is None:
                continue
            if kind == Kind.REPLY:
                call.replied(content)
            elif kind == Kind.END:
                del self._calls[number]
                call.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.fail(ConnectionError("the connection was lost"))
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


class LocalCalls:
    """The connections of this process to others of its machine, by instance; opened when needed."""

    def __init__(self, directory: Path) -> None:
        """`directory` has the processes' sockets."""
        self._directory = directory
        self._open: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Task[Connection | None]] = {}

    async def to(self, instance: int) -> Connection | None:
        """Return the connection to an instance; None if it has no socket here that accepts."""
        known = self._open.get(instance)
        if known is not None and not known.lost:
            return known
        opening = self._opening.get(instance)
        if opening is None:
            opening = asyncio.create_task(self._connected(instance), name="local connection")
            self._opening[instance] = opening
        # Several callers may wait for it: cancelling one does not end it.
        return await asyncio.shield(opening)

    def close(self) -> None:
        """Close all connections; calls in progress fail."""
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._open.values():
            connection.abort()

    async def _connected(self, instance: int) -> Connection | None:
        path = socket_path(self._directory, instance)
        self._open = {i: one for i, one in self._open.items() if not one.lost}
        try:
            if not path.exists():
                return None
            check_private(self._directory)
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_unix_connection(Connection, str(path))
        except OSError as error:  # it has died, or has not begun to listen
            log.info("no local connection to instance %x: %s", instance, error)
            return None
        else:
            self._open[instance] = connection
            return connection
        finally:
            del self._opening[instance]
