"""Reads the body of `POST /v1/listen`, which is the recording itself."""

from __future__ import annotations

import hashlib
from tempfile import SpooledTemporaryFile

from starlette.datastructures import UploadFile
from starlette.requests import Request

from auricle.errors import BadRequest, UnsupportedValue
from auricle.frontend.recordings.storage import storing
from auricle.frontend.recordings.uploads import CheckSize

_IN_MEMORY_BYTES = 1 << 20


class RecordingBody:
    """A request's body, in memory up to a megabyte and then on disk."""

    def __init__(self) -> None:
        # Closed with the file.
        spool = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self.file = UploadFile(spool, size=0)  # type: ignore[arg-type]  # as starlette's own
        self._digest = hashlib.sha256()

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.file.size or 0

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes, in hexadecimal."""
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        """Add bytes. Raises StorageFull, Overloaded."""
        self._digest.update(data)
        with storing():
            await self.file.write(data)

    async def close(self) -> None:
        """Free the memory or the file."""
        await self.file.close()


async def read_body(request: Request, check_size: CheckSize) -> RecordingBody:
    """Read the body. Raises BadRequest if it is a URL, a form or empty; see `Uploads.taken`."""
    _check_type(request.headers.get("content-type", ""))
    if (length := request.headers.get("content-length", "")).isdigit():
        check_size(int(length))
    body = RecordingBody()
    try:
        async for part in request.stream():
            await body.write(part)
        if not body.size:
            raise BadRequest("the body is empty; send the recording itself as the body")
    except BaseException:
        await body.close()
        raise
    return body


def _check_type(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        raise UnsupportedValue(
            "a recording at a URL is not fetched here; send the recording itself as the body",
            "url",
        )
    if kind.startswith("multipart/"):
        raise BadRequest("a form is not read here; send the recording itself as the body")
