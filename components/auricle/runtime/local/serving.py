"""One connection from a process that calls this one: requests in, replies out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Protocol, cast

from auricle.errors import AuricleError, Overloaded
from auricle.messages.refusal import Refusal
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

log = logging.getLogger(__name__)
# Of calls under way on one connection: their number, and the bytes of their requests.
_MOST_CALLS = 8192
_MOST_BYTES = 256 * 2**20
Handler = Callable[[Any, Any], AsyncGenerator[Any, None]]


class Caller:
    """Who made one call: whether it still waits, and how many replies it may be sent.

    Its method `async_killed_or_stopped` is that of Dynamo's request context.
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


class Calls(Protocol):
    """What a connection tells the process's socket (`LocalServer`) of."""

    def handler(self, endpoint: str) -> Handler:
        """Return the endpoint's handler. Raises AuricleError if it is not, or no more, served."""

    def connected(self, connection: Served) -> None:
        """Another process has connected."""

    def disconnected(self, connection: Served) -> None:
        """It has left."""

    def begins(self, answering: Coroutine[Any, Any, None], name: str) -> None:
        """A call begins: run what answers it."""

    def ended(self) -> None:
        """A call has ended."""


class Served(asyncio.Protocol):
    """A connection, with all calls under way on it."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
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
        self._calls.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        for caller in self._callers.values():
            caller.leave()
        self._calls.disconnected(self)

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
            handler = self._calls.handler(endpoint)
            self._check_room(len(sealed))
        except AuricleError as error:
            self._refuse(number, error)
            self._write(Kind.END, number)
            return
        caller = self._callers[number] = Caller(len(sealed))
        self._request_bytes += caller.request_bytes
        work = self._answer(number, caller, handler(sealed_to_wire(sealed), caller))
        self._calls.begins(work, f"call of {endpoint}")

    def _check_room(self, more: int) -> None:
        if len(self._callers) >= _MOST_CALLS or self._request_bytes + more > _MOST_BYTES:
            raise Overloaded(
                f"{len(self._callers)} calls of {self._request_bytes} bytes are under way from "
                f"the process; at most {_MOST_CALLS} of {_MOST_BYTES} bytes may be"
            )

    async def _answer(
        self, number: int, caller: Caller, replies: AsyncGenerator[Any, None]
    ) -> None:
        """Send the replies, each once the caller and the connection have room for it."""
        try:
            async with aclosing(replies) as out:
                async for reply in out:
                    if not await caller.ready():
                        break
                    # All who wait are woken together, and the first may have filled it again.
                    while not self._writable.is_set():
                        await self._writable.wait()
                    self._write(Kind.REPLY, number, packed_from_wire(reply))
        except Exception as error:
            # Handlers answer for their own errors. Without this a stream would seem to be whole.
            self._refuse(number, AuricleError("the call failed; see its worker's log"))
            log.exception("a local call failed: %s", error)
        finally:
            del self._callers[number]
            self._request_bytes -= caller.request_bytes
            self._calls.ended()
            self._write(Kind.END, number)

    def _refuse(self, number: int, error: AuricleError) -> None:
        refusal = Refusal(error.code, str(error), error.keys, error.retry_after_seconds)
        self._write(Kind.REPLY, number, encoded(refusal))

    def _write(self, kind: Kind, number: int, content: bytes = b"") -> None:
        if self._transport is not None:
            self._transport.write(packed(kind, number, content))
