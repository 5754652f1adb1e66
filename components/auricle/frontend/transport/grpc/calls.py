"""Live sessions that come as gRPC calls: authentication, admission, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from auricle.core.aio import ReusableTimeout, cancelled, with_timeout
from auricle.core.errors import AuricleError, Overloaded
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.admission import SessionAdmission, farewell
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.grpc.incoming import Arriving, Context, Incoming, warn
from auricle.frontend.transport.live_sessions import LiveSession, LiveSessions, Record
from auricle.frontend.transport.slots import SessionSlot

# The messages of one gRPC call, each with a deadline.


class CallMessages:
    """Call its methods on the event loop; they raise ClientDisconnected once the client has left.

    One task may `receive` at a time. Messages that several tasks `send` go out one by one.
    """

    def __init__(self, context: Context, slow_reader_seconds: float) -> None:
        """A `send` may take `slow_reader_seconds`; beyond what gRPC holds, nothing is queued."""
        self._context = context
        self._slow_reader_seconds = slow_reader_seconds
        self._timeout = ReusableTimeout()
        self._reading: asyncio.Task[Any] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()

    async def receive(self, seconds: float, what: str) -> bytes | None:
        """Return the next message, None after the last one.

        Raises DeadlineExceeded if nothing came for `seconds`, naming `what`; Interrupted after
        `interrupt`.
        """
        if self._reading is None:
            # gRPC returns no message after a cancelled read, so a read continues after its wait
            # has ended.
            self._reading = asyncio.create_task(self._read())
        message = await self._timeout.wait(seconds, asyncio.shield(self._reading), what)
        self._reading = None
        return message if isinstance(message, bytes) else None

    async def _read(self) -> Any:
        try:
            return await self._context.read()
        except Exception:
            raise ClientDisconnected from None

    async def send(self, message: bytes) -> None:
        """Send a message. Raises DeadlineExceeded if the client does not read."""
        async with self._sending:
            await self._written()
            self._writing = asyncio.create_task(self._write(message))
            seconds, writing = self._slow_reader_seconds, asyncio.shield(self._writing)
            try:
                await with_timeout(seconds, writing, "reading sent data")
            except AuricleError:
                self._writing.cancel()
                raise

    async def _write(self, message: bytes) -> None:
        try:
            await self._context.write(message)
        except Exception:
            raise ClientDisconnected from None

    async def _written(self) -> None:
        """Wait for the write of a `send` that was cancelled.

        gRPC completes it anyway, and takes neither another message nor the call's status before.
        """
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=self._slow_reader_seconds)
            await cancelled([self._writing])

    def interrupt(self) -> None:
        self._timeout.interrupt()

    async def release(self) -> None:
        """Nothing is received any more, and no deadline runs on."""
        self._timeout.close()
        if self._reading is not None:
            await cancelled([self._reading])
        await self._written()


_RECONNECT_SECONDS = 1.0


class LiveCall(LiveSession):
    """The session of one call. Call its methods on the event loop.

    Methods raise ClientDisconnected once the client has left. One task may `receive` at a time.
    """

    def __init__(
        self,
        context: Context,
        client: ClientAccount,
        slow_reader_seconds: float,
        record: Record,
        slot: SessionSlot,
        arriving: Arriving,
    ) -> None:
        """A `send` may take `slow_reader_seconds`."""
        super().__init__(client, record, [slot])
        self._context = context
        self._arriving = arriving
        self._messages = CallMessages(context, slow_reader_seconds)
        self.farewell: str | None = None  # why the session ends early, without an error

    async def receive(self, seconds: float, what: str) -> bytes | None:
        """Return the next message, None after the last one.

        Raises DeadlineExceeded if nothing came for `seconds`, naming `what`; Interrupted after
        `interrupt`; the error with which the frontend has ended the call.
        """
        message = await self._messages.receive(seconds, what)
        if message is None and self._arriving.failure is not None:
            raise self._arriving.failure
        for slot in self.slots:
            slot.confirm()
        return message

    async def warn(self, warnings: Sequence[str]) -> None:
        """Report options without effect. Call it before `send`."""
        await warn(self._context, warnings)

    async def send(self, message: bytes) -> None:
        """Send a message. Raises DeadlineExceeded if the client does not read."""
        await self._messages.send(message)

    def interrupt(self) -> None:
        self._messages.interrupt()

    def end_early(self, samples: int) -> None:
        """The session will end early, as UNAVAILABLE; the client may continue elsewhere.

        The audio up to session sample `samples` (16 kHz) is transcribed here.
        """
        self.farewell = farewell(samples)

    async def release(self) -> None:
        """The session is over: nothing is received any more, and no deadline runs on."""
        await self._messages.release()


@contextmanager
def _own_failure(arriving: Arriving) -> Iterator[None]:
    """Raise the error with which the frontend has ended the call, as the client has not left."""
    try:
        yield
    except (ClientDisconnected, asyncio.CancelledError):
        if arriving.failure is None:
            raise
        raise arriving.failure from None


class LiveCalls:
    """Serves the live sessions of this frontend that come as calls, on one event loop."""

    def __init__(
        self,
        access: Access,
        admission: SessionAdmission,
        sessions: LiveSessions,
        slow_reader_seconds: float,
    ) -> None:
        self._access = access
        self._admission = admission
        self._sessions = sessions
        self._slow_reader_seconds = slow_reader_seconds

    async def serve(
        self,
        incoming: Incoming,
        context: Context,
        protocol: str,
        run: Callable[[LiveCall], Awaitable[None]],
    ) -> None:
        """Serve one session until `run` is done. Raises AuricleError if it fails or is refused."""
        record = Record(protocol, incoming.address)
        try:
            with self._sessions.recorded(record):
                leaving = await self._admitted(record, incoming, context, run)
        except ClientDisconnected:
            return
        if leaving is not None:
            raise Overloaded(leaving, _RECONNECT_SECONDS)

    async def _admitted(
        self,
        record: Record,
        incoming: Incoming,
        context: Context,
        run: Callable[[LiveCall], Awaitable[None]],
    ) -> str | None:
        """Run the session; return why it ended early, if it did, without an error."""
        client = self._access.client(incoming.metadata, "live")
        fairness_key = client.fairness_key(incoming.host)
        async with self._sessions.admitted(record, client, fairness_key) as (slot,):
            arriving = incoming.call
            call = LiveCall(context, client, self._slow_reader_seconds, record, slot, arriving)
            try:
                with arriving.admitted(), self._admission.interrupting(call.interrupt):
                    async with self._sessions.running(record, client, call.slots):
                        with _own_failure(arriving):
                            await run(call)
            finally:
                await call.release()
            return call.farewell
