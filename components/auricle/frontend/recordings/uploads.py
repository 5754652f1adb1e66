"""How the bodies of recordings are read: bounded, at a least pace, fairly between clients.

What is read is kept on disk after the first MB, in an anonymous file (unlinked once it is open), so
nothing is left behind if this process dies. The decoding process opens it through /proc.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from auricle.errors import DeadlineExceeded, Overloaded
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.addresses import host_of
from auricle.frontend.doors.seats import Seats, Shares
from auricle.frontend.recordings.pace import UploadLimits, UploadPace
from auricle.frontend.recordings.storage import storing
from auricle.settings import FrontendSettings
from auricle.tasks import Patience

CheckSize = Callable[[int], None]


class Body(Protocol):
    """What was made of a request's body."""

    async def close(self) -> None:
        """Free what is on disk."""
        ...


B = TypeVar("B", bound=Body)


async def on_disk(file: UploadFile) -> Path:
    """Write a file to disk, whatever its size, because another process will open it.

    The path is valid until the file is closed. Raises StorageFull, Overloaded.
    """
    await asyncio.to_thread(_to_disk, file)
    return Path(f"/proc/{os.getpid()}/fd/{file.file.fileno()}")


def _to_disk(file: UploadFile) -> None:
    with storing():
        file.file.rollover()  # type: ignore[attr-defined]  # a SpooledTemporaryFile
        file.file.flush()


class Turnstile:
    """Limits all uploads together to one block per iteration of the event loop.

    Other tasks then run between two blocks, however many uploads arrive at full speed. Use it
    on one event loop.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Wait until the next block may be processed."""
        async with self._lock:
            await asyncio.sleep(0)


class Uploads:
    """Bounds of uploads: in progress, and complete ones in work or queued for it.

    If as many are in progress as may be, a client with several loses one to a client with
    none. Use it on one event loop.
    """

    def __init__(self, settings: FrontendSettings) -> None:
        self._seats = Seats(settings.max_uploads)
        self._hosts = Shares(settings.max_uploads_per_address, "uploads")
        self._tenants = Shares(settings.max_uploads_per_key, "uploads")
        self._limits = UploadLimits(
            idle_seconds=settings.upload_timeout_seconds,
            bytes_per_second=settings.min_upload_bytes_per_second,
            window_seconds=settings.upload_window_seconds,
            deadline_seconds=settings.upload_deadline_seconds,
        )
        self._most_in_work = settings.max_recordings
        self._turnstile = Turnstile()
        self.in_work = 0

    @property
    def in_progress(self) -> int:
        """Uploads that are not complete."""
        return self._seats.taken

    def check_room(self) -> None:
        """Raise Overloaded if one more complete upload could not be worked on."""
        if self.in_work >= self._most_in_work:
            raise Overloaded(f"{self._most_in_work} recordings are in work; try again")

    @asynccontextmanager
    async def taken(
        self,
        scope: Scope,
        receive: Receive,
        client: Client,
        check_size: CheckSize,
        read: Callable[[Request, CheckSize], Awaitable[B]],
    ) -> AsyncIterator[B]:
        """Let `read` read the whole body and yield what it makes of it, until the block ends.

        So long it counts as in work. `check_size(bytes so far)` raises TooLarge; `read` may call it
        with the Content-Length. Raises what `read` raises, TooSlow, RateLimited, Overloaded,
        StorageFull, and ClientDisconnect if the client leaves.
        """
        body = await self._read(scope, receive, client, check_size, read)
        try:
            self.check_room()
            self.in_work += 1
            try:
                yield body
            finally:
                self.in_work -= 1
        finally:
            await body.close()

    async def _read(
        self,
        scope: Scope,
        receive: Receive,
        client: Client,
        check_size: CheckSize,
        read: Callable[[Request, CheckSize], Awaitable[B]],
    ) -> B:
        host = host_of(scope.get("client"))
        tenant = client.counts_as("")
        with self._hosts.one(host), self._tenants.one(tenant) if tenant else nullcontext():
            seat = self._seats.take(client.counts_as(host))
            if seat is None:
                raise Overloaded(f"{self._seats.limit} uploads are in progress; try again")
            arriving = _Arriving(receive, check_size, UploadPace(self._limits), self._turnstile)
            seat.on_loss(arriving.give_way)
            try:
                return await read(Request(scope, arriving), check_size)
            finally:
                arriving.close()
                seat.leave()


class _Arriving:
    """Wraps `receive`: counts bytes, bounds each wait, and lets other tasks run in between."""

    def __init__(
        self,
        receive: Receive,
        check_size: CheckSize,
        pace: UploadPace,
        turnstile: Turnstile,
    ) -> None:
        self._receive = receive
        self._check_size = check_size
        self._pace = pace
        self._turnstile = turnstile
        self._bytes = 0
        self._patience = Patience()
        self._gave_way: Overloaded | None = None

    def give_way(self) -> None:
        """End the upload for the sake of another client's."""
        self._gave_way = Overloaded("you have several uploads in progress, others none; try again")
        self._patience.fail(self._gave_way)

    def close(self) -> None:
        """The body is read."""
        self._patience.close()

    async def __call__(self) -> Message:
        if self._gave_way is not None:
            raise self._gave_way
        begun = time.monotonic()
        try:
            message = await self._patience.wait(
                self._pace.patience, self._receive(), "the next part of the upload"
            )
        except DeadlineExceeded:
            raise self._pace.stalled() from None
        part = message.get("body", b"")
        if message.get("more_body", False):
            self._pace.received(len(part), time.monotonic() - begun)
        self._bytes += len(part)
        self._check_size(self._bytes)
        await self._turnstile.turn()
        return message
