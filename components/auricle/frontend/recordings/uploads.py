"""How the bodies of recordings are read: bounded, at a least pace, fairly between clients.

What is read is kept on disk after the first MB, in an anonymous file (unlinked once it is open), so
nothing is left behind if this process dies. The decoding process opens it through /proc.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from auricle.config.settings import FrontendSettings
from auricle.core.aio import Patience
from auricle.core.errors import DeadlineExceeded, Overloaded, StorageFull, TooSlow
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import host_of
from auricle.frontend.transport.slots import Seats, Shares

log = logging.getLogger(__name__)

# What the disk says while an upload is written, in words for its client.

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@contextmanager
def storing() -> Iterator[None]:
    """Raise StorageFull if the block cannot write its file, and Overloaded if it cannot open it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            log.error("no room for uploads in %s: %s", tempfile.gettempdir(), error.strerror)
            raise StorageFull("the server has no room for the upload; try again later") from None
        if error.errno in _NO_DESCRIPTOR:
            log.error("no upload can be stored: %s", error.strerror)
            raise Overloaded("the server has too many files open; try again") from None
        raise


# How fast an upload must arrive. Pure.


@dataclass(frozen=True)
class UploadLimits:
    """`idle_seconds`: until the next bytes; `deadline_seconds`: for all of them.

    `bytes_per_second` is a mean over each `window_seconds`.
    """

    idle_seconds: float
    bytes_per_second: float
    window_seconds: float
    deadline_seconds: float


class UploadPace:
    """The pace of one upload.

    Only the time counts in which the server waited for the client, so that a busy server is
    not taken for a slow client.
    """

    def __init__(self, limits: UploadLimits) -> None:
        self._limits = limits
        self._waited = 0.0
        self._window_end = limits.window_seconds
        self._window_bytes = 0

    @property
    def patience(self) -> float:
        """Seconds that the wait for the next bytes may take at most."""
        limits = self._limits
        return min(limits.idle_seconds, max(0.0, limits.deadline_seconds - self._waited))

    def received(self, size: int, waited: float) -> None:
        """Count `size` bytes that were waited for. Raises TooSlow."""
        limits = self._limits
        self._waited += waited
        self._window_bytes += size
        if self._waited >= limits.deadline_seconds:
            raise TooSlow(f"the upload took longer than {limits.deadline_seconds:g} s")
        if self._waited < self._window_end:
            return
        seconds = self._waited - (self._window_end - limits.window_seconds)
        if self._window_bytes < limits.bytes_per_second * seconds:
            raise TooSlow(
                f"the upload is slower than {limits.bytes_per_second:g} bytes a second, "
                f"the mean of {limits.window_seconds:g} s"
            )
        self._window_end = self._waited + limits.window_seconds
        self._window_bytes = 0

    def stalled(self) -> TooSlow:
        """Return the error of a wait that was longer than `patience`."""
        limits = self._limits
        if self._waited + limits.idle_seconds >= limits.deadline_seconds:
            return TooSlow(f"the upload took longer than {limits.deadline_seconds:g} s")
        return TooSlow(f"the next part of the upload took longer than {limits.idle_seconds:g} s")


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
        client: ClientAccount,
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
        client: ClientAccount,
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
