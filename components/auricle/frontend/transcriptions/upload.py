"""Reads a multipart request's body: fields into memory, the file to disk after the first MB.

The file is anonymous (unlinked once it is open), so nothing is left behind if this process
dies. The decoding process opens it through /proc.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from auricle.errors import BadRequest, DeadlineExceeded, Overloaded, UnsupportedValue
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.addresses import host_of
from auricle.frontend.doors.seats import Seats, Shares
from auricle.frontend.recordings.storage import storing
from auricle.frontend.transcriptions.pace import UploadLimits, UploadPace
from auricle.quoting import quoted
from auricle.settings import FrontendSettings
from auricle.tasks import Patience
from auricle.text_bounds import file_name

_MAX_FIELDS = 40
_MAX_FIELD_BYTES = 64 * 1024
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
_FORM_FAULTS = {
    "Part exceeded": f"a field has more than {_MAX_FIELD_BYTES} bytes",
    "Too many files": "only one file can be sent, as 'file'",
    "Too many fields": f"the form has more than {_MAX_FIELDS} fields",
    "Missing boundary": "the form cannot be read: its Content-Type has no boundary",
    "The Content-Disposition": "the form cannot be read: a field has no name",
}


@dataclass(frozen=True)
class Upload:
    """An uploaded file of `size` bytes; `path` is valid until the form is closed.

    `name` is the client's file name, escaped for messages. `fields` are the form's other fields,
    as (name, value).
    """

    path: Path
    name: str
    size: int
    fields: tuple[tuple[str, str], ...]


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


async def _read_form(request: Request, check_size: Callable[[int], None]) -> FormData:
    _check_type(request.headers.get("content-type", ""))
    if (length := request.headers.get("content-length", "")).isdigit():
        check_size(int(length))
    try:
        with storing():
            return await request._get_form(
                max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
            )
    except HTTPException as error:  # how starlette reports a malformed body
        raise BadRequest(_form_fault(str(error.detail))) from None


def _check_type(content_type: str) -> None:
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise BadRequest(f"the body must be multipart/form-data, not {quoted(content_type)}")
    charset = options.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in _CHARSETS:
        # Python has others that fail in ways of their own, take long, or give half characters.
        raise BadRequest(f"the form's charset must be utf-8, not {quoted(charset)}")


def _form_fault(said: str) -> str:
    """Return our words for what starlette says of a form."""
    for theirs, ours in _FORM_FAULTS.items():
        if said.startswith(theirs):
            return ours
    return "the form cannot be read: it is not valid multipart/form-data"


async def take_upload(form: FormData) -> Upload:
    """Return the form's file and fields.

    Raises UnsupportedValue unless `file` is one file, and StorageFull if the disk is full.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise UnsupportedValue("file is missing; send the audio as a file called 'file'", "file")
    others = [(name, value) for name, value in form.multi_items() if name != "file"]
    fields = tuple((name, value) for name, value in others if isinstance(value, str))
    if len(fields) < len(others) or len(form.getlist("file")) > 1:
        raise UnsupportedValue("only one file can be sent, as 'file'", "file")
    await asyncio.to_thread(_to_disk, file)
    return Upload(
        Path(f"/proc/{os.getpid()}/fd/{file.file.fileno()}"),
        file_name(file.filename),
        file.size or 0,
        fields,
    )


def _to_disk(file: UploadFile) -> None:
    """Write the file to disk, whatever its size, because another process will open it."""
    with storing():
        file.file.rollover()  # type: ignore[attr-defined]  # a SpooledTemporaryFile
        file.file.flush()


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
    async def form(
        self,
        scope: Scope,
        receive: Receive,
        client: Client,
        check_size: Callable[[int], None],
    ) -> AsyncIterator[FormData]:
        """Read the whole body and yield the form; it counts as in work until the block ends.

        `check_size(bytes so far)` raises TooLarge; it is called first with the Content-Length,
        if there is one. Raises BadRequest if the body is not a valid multipart form, TooSlow,
        RateLimited, Overloaded, StorageFull, and ClientDisconnect if the client leaves.
        """
        form = await self._read(scope, receive, client, check_size)
        try:
            self.check_room()
            self.in_work += 1
            try:
                yield form
            finally:
                self.in_work -= 1
        finally:
            await form.close()

    async def _read(
        self, scope: Scope, receive: Receive, client: Client, check_size: Callable[[int], None]
    ) -> FormData:
        host = host_of(scope.get("client"))
        tenant = client.counts_as("")
        with self._hosts.one(host), self._tenants.one(tenant) if tenant else nullcontext():
            seat = self._seats.take(client.counts_as(host))
            if seat is None:
                raise Overloaded(f"{self._seats.limit} uploads are in progress; try again")
            body = _Body(receive, check_size, UploadPace(self._limits), self._turnstile)
            seat.on_loss(body.give_way)
            try:
                return await _read_form(Request(scope, body), check_size)
            finally:
                body.close()
                seat.leave()


class _Body:
    """Wraps `receive`: counts bytes, bounds each wait, and lets other tasks run in between."""

    def __init__(
        self,
        receive: Receive,
        check_size: Callable[[int], None],
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
