"""A multipart request's body: fields in memory, the file on disk past the first MB.

The file is anonymous (its name is gone once it is open), so whatever happens to this
process nothing is left behind; the decoding process opens it through /proc.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from auricle.errors import BadRequest, UnsupportedValue
from auricle.tasks import within

_MAX_FIELDS = 40
_MAX_FIELD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Upload:
    """`path` is valid until the form is closed; `fields` are all but the file."""

    path: Path
    name: str
    size: int
    fields: tuple[tuple[str, str], ...]


class Turnstile:
    """Lets one block of all uploads through per turn of the event loop.

    However many uploads come in at full speed, everything else on the loop gets its turn
    between two blocks.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for this block's turn."""
        async with self._lock:
            await asyncio.sleep(0)


async def read_form(
    scope: Scope,
    receive: Receive,
    check_size: Callable[[int], None],
    idle_seconds: float,
    turnstile: Turnstile,
) -> FormData:
    """The whole body; the caller closes it.

    `check_size(bytes so far)` raises TooLarge, at once where the header says so. Raises
    BadRequest if it is no multipart form, DeadlineExceeded if the client stalls, and
    ClientDisconnect if it leaves.
    """
    request = Request(scope, _Counted(receive, check_size, idle_seconds, turnstile))
    content_type = request.headers.get("content-type", "")
    if not content_type.startswith("multipart/form-data"):
        raise BadRequest(f"the body must be multipart/form-data, not {content_type or 'empty'!r}")
    if (length := request.headers.get("content-length", "")).isdigit():
        check_size(int(length))
    try:
        return await request._get_form(
            max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
        )
    except HTTPException as error:  # how starlette reports a malformed body
        raise BadRequest(f"the form cannot be read: {error.detail}") from None


async def take_upload(form: FormData) -> Upload:
    """The form's file and fields. Raises UnsupportedValue if `file` is not one file."""
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
        file.filename or "the file",
        file.size or 0,
        fields,
    )


def _to_disk(file: UploadFile) -> None:
    """Whatever its size: another process is to open it."""
    file.file.rollover()  # type: ignore[attr-defined]  # a SpooledTemporaryFile
    file.file.flush()


class _Counted:
    """`receive`, with its bytes counted, each wait bounded, and other work let through."""

    def __init__(
        self,
        receive: Receive,
        check_size: Callable[[int], None],
        idle_seconds: float,
        turnstile: Turnstile,
    ) -> None:
        self._receive = receive
        self._check_size = check_size
        self._idle = idle_seconds
        self._turnstile = turnstile
        self._bytes = 0

    async def __call__(self) -> Message:
        message = await within(self._idle, self._receive(), "the next part of the upload")
        self._bytes += len(message.get("body", b""))
        self._check_size(self._bytes)
        await self._turnstile.turn()
        return message
