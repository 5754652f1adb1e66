"""The messages of one gRPC call, each with a deadline."""

from __future__ import annotations

import asyncio
from typing import Any

from auricle.errors import AuricleError
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.rpc.incoming import Context
from auricle.tasks import Patience, cancelled, within


class CallMessages:
    """Call its methods on the event loop; they raise ClientGone once the client has left.

    One task may `receive` at a time. Messages that several tasks `send` go out one by one.
    """

    def __init__(self, context: Context, slow_reader_seconds: float) -> None:
        """A `send` may take `slow_reader_seconds`; beyond what gRPC holds, nothing is queued."""
        self._context = context
        self._slow_reader_seconds = slow_reader_seconds
        self._patience = Patience()
        self._reading: asyncio.Task[Any] | None = None
        self._sending = asyncio.Lock()

    async def receive(self, seconds: float, what: str) -> bytes | None:
        """Return the next message, None after the last one.

        Raises DeadlineExceeded if nothing came for `seconds`, naming `what`; Interrupted after
        `interrupt`.
        """
        if self._reading is None:
            # After a read that is cancelled gRPC gives no message any more, so one goes on beyond
            # a wait that ends.
            self._reading = asyncio.create_task(self._read())
        message = await self._patience.wait(seconds, asyncio.shield(self._reading), what)
        self._reading = None
        return message if isinstance(message, bytes) else None

    async def _read(self) -> Any:
        try:
            return await self._context.read()
        except Exception:
            raise ClientGone from None

    async def send(self, message: bytes) -> None:
        """Send a message. Raises DeadlineExceeded if the client does not read."""
        async with self._sending:
            try:
                sending = self._context.write(message)
                await within(self._slow_reader_seconds, sending, "reading what was sent")
            except AuricleError:
                raise
            except Exception:
                raise ClientGone from None

    def interrupt(self) -> None:
        """End the `receive` in progress, if any, with Interrupted."""
        self._patience.interrupt()

    def fail(self, error: Exception) -> None:
        """End the `receive` in progress, if any, with `error`."""
        self._patience.fail(error)

    async def release(self) -> None:
        """Nothing is received any more, and no deadline runs on."""
        self._patience.close()
        if self._reading is not None:
            await cancelled([self._reading])
