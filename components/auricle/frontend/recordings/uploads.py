"""Reads the bodies of recordings: bounded, at a minimum pace, fairly between clients.

After the first MB a body is stored on disk, in an anonymous file (unlinked once it is open), so
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
from auricle.core.aio import ReusableTimeout
from auricle.core.errors import DeadlineExceeded, Overloaded, StorageFull, TooSlow
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import host_of, networks_of
from auricle.frontend.transport.slots import (
    ConcurrencyLimit,
    NetworkLimit,
    SessionSlot,
    SessionSlots,
)
from auricle.frontend.transport.stored_bytes import StoredBytes, StoredUpload

log = logging.getLogger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@contextmanager
def storing() -> Iterator[None]:
    """Raise StorageFull if the block cannot write its file, and Overloaded if it cannot open it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            log.error("uploads cannot be stored in %s: %s", tempfile.gettempdir(), error.strerror)
            raise StorageFull("the server has no room for the upload; try again later") from None
        if error.errno in _NO_DESCRIPTOR:
            log.error("uploads cannot be stored: %s", error.strerror)
            raise Overloaded("the server has too many files open; try again") from None
        raise


@dataclass(frozen=True)
class UploadLimits:
    """`idle_seconds`: until the next bytes; `deadline_seconds`: for all of them.

    `bytes_per_second` is a mean over each `window_seconds`. An upload that has brought much must
    be faster: at the rate at which it would have brought as much by its deadline. So it cannot
    bring most of its bytes at once and then hold them for as long as it likes.
    """

    idle_seconds: float
    bytes_per_second: float
    window_seconds: float
    deadline_seconds: float


class UploadPace:
    """The pace of one upload. No I/O.

    Only time that the server waits for the client counts: a busy server is not a slow client.
    """

    def __init__(self, limits: UploadLimits) -> None:
        self._limits = limits
        self._waited = 0.0
        self._window_end = limits.window_seconds
        self._window_bytes = 0
        self._bytes = 0  # before this window

    @property
    def wait_seconds(self) -> float:
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
        least = max(limits.bytes_per_second, self._bytes // limits.deadline_seconds)
        if self._window_bytes < least * seconds:
            raise TooSlow(
                f"the upload is slower than {least:.0f} bytes a second, "
                f"the mean of {limits.window_seconds:g} s"
            )
        self._window_end = self._waited + limits.window_seconds
        self._bytes += self._window_bytes
        self._window_bytes = 0

    def stalled(self) -> TooSlow:
        """Return the error of a wait that was longer than `wait_seconds`."""
        limits = self._limits
        if self._waited + limits.idle_seconds >= limits.deadline_seconds:
            return TooSlow(f"the upload took longer than {limits.deadline_seconds:g} s")
        return TooSlow(f"the next part of the upload took longer than {limits.idle_seconds:g} s")


CheckSize = Callable[[int], None]


class Body(Protocol):
    """A request's body that was read, which may be a form; `close` frees its file."""

    async def close(self) -> None: ...


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


class Uploads:
    """Limits uploads in progress, and complete ones that are queued or processed.

    At the limit of uploads in progress, a client with several loses one to a client with none.
    Use it on one event loop.
    """

    def __init__(self, settings: FrontendSettings, stored: StoredBytes | None = None) -> None:
        """`stored` is shared with others that store recordings."""
        self._stored = stored or StoredBytes(settings.max_stored_upload_bytes)
        self._slots = SessionSlots(settings.max_uploads)
        self._networks = NetworkLimit(settings.max_uploads_per_address, "uploads")
        self._tenants = ConcurrencyLimit(settings.max_uploads_per_key, "uploads")
        self._limits = UploadLimits(
            idle_seconds=settings.upload_timeout_seconds,
            bytes_per_second=settings.min_upload_bytes_per_second,
            window_seconds=settings.upload_window_seconds,
            deadline_seconds=settings.upload_deadline_seconds,
        )
        self._most_in_work = settings.max_recordings
        self._turn = asyncio.Lock()
        self.in_work = 0

    @property
    def in_progress(self) -> int:
        return self._slots.taken

    @property
    def has_room(self) -> bool:
        """Whether one more complete upload could be processed."""
        return self.in_work < self._most_in_work

    def check_room(self) -> None:
        """Raise Overloaded if one more complete upload could not be processed."""
        if not self.has_room:
            raise Overloaded(f"{self._most_in_work} recordings are in progress; try again")

    @asynccontextmanager
    async def taken(
        self,
        scope: Scope,
        receive: Receive,
        client: ClientAccount,
        check_size: CheckSize,
        read: Callable[[Request, CheckSize], Awaitable[B]],
    ) -> AsyncIterator[B]:
        """Read the whole body with `read`, and yield its result until the block ends.

        `check_size(bytes so far)` raises TooLarge; `read` may call it with the Content-Length.
        Raises the errors of `read`, TooSlow, RateLimited, Overloaded, StorageFull, and
        ClientDisconnect if the client leaves.
        """
        async with self.received(scope, receive, client, check_size, read) as body:
            self.check_room()
            self.in_work += 1
            try:
                yield body
            finally:
                self.in_work -= 1

    @asynccontextmanager
    async def received(
        self,
        scope: Scope,
        receive: Receive,
        client: ClientAccount,
        check_size: CheckSize,
        read: Callable[[Request, CheckSize], Awaitable[B]],
    ) -> AsyncIterator[B]:
        """As `taken`, for a body that is not processed now."""
        with self._stored.upload(client.fairness_key(host_of(scope.get("client")))) as stored:
            with self._in_progress(scope, client) as slot:
                arriving = _Arriving(
                    receive, check_size, UploadPace(self._limits), self._turn, stored
                )
                slot.on_preempted(arriving.preempt)
                try:
                    body = await read(Request(scope, arriving), check_size)
                finally:
                    arriving.close()
            try:
                yield body
            finally:
                await body.close()

    @contextmanager
    def _in_progress(self, scope: Scope, client: ClientAccount) -> Iterator[SessionSlot]:
        """Count an upload in progress while the block runs. Raises RateLimited and Overloaded."""
        networks = networks_of(scope.get("client"))
        tenant = client.fairness_key("")
        with self._networks.one(networks), self._tenants.one(tenant) if tenant else nullcontext():
            slot = self._slots.take(client.fairness_key(networks[0]))
            if slot is None:
                raise Overloaded(f"{self._slots.limit} uploads are in progress; try again")
            try:
                yield slot
            finally:
                slot.release()


class _Arriving:
    """Wraps `receive`: counts bytes, bounds each wait, and lets other tasks run in between."""

    def __init__(
        self,
        receive: Receive,
        check_size: CheckSize,
        pace: UploadPace,
        turn: asyncio.Lock,
        stored: StoredUpload,
    ) -> None:
        """`turn` is shared by all uploads: together they process one block per iteration of the
        event loop, so that other tasks run between two blocks."""
        self._receive = receive
        self._check_size = check_size
        self._pace = pace
        self._turn = turn
        self._stored = stored
        stored.on_preempted = self.preempt
        self._bytes = 0
        self._timeout = ReusableTimeout()
        self._preempted: Overloaded | None = None

    def preempt(self) -> None:
        """End the upload in favour of another client's."""
        self._preempted = Overloaded(
            "this upload was ended in favour of a client with fewer or smaller ones; try again"
        )
        self._timeout.fail(self._preempted)

    def close(self) -> None:
        """Stop the deadlines once the body is read; from then on it gives way no more."""
        self._stored.on_preempted = None
        self._timeout.close()

    async def __call__(self) -> Message:
        if self._preempted is not None:
            raise self._preempted
        begun = time.monotonic()
        try:
            message = await self._timeout.wait(
                self._pace.wait_seconds, self._receive(), "the next part of the upload"
            )
        except DeadlineExceeded:
            raise self._pace.stalled() from None
        part = message.get("body", b"")
        if message.get("more_body", False):
            self._pace.received(len(part), time.monotonic() - begun)
        self._bytes += len(part)
        self._check_size(self._bytes)
        self._stored.add(len(part))
        async with self._turn:
            await asyncio.sleep(0)
        return message
