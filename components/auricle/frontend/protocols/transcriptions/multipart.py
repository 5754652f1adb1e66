"""Reads a multipart request's body: fields into memory, the file to disk after the first MB."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from auricle.core.errors import BadRequest, UnsupportedValue
from auricle.core.limits import file_name
from auricle.core.sanitize import quoted
from auricle.frontend.recordings.uploads import CheckSize, on_disk, storing

_MAX_FIELDS = 40
_MAX_FIELD_BYTES = 64 * 1024
_MAX_PREAMBLE_BYTES = 8 * 1024
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
_UNENCODED = (b"", b"binary", b"8bit", b"7bit")
_ENCODED = "a part is encoded: only binary is understood as Content-Transfer-Encoding"
_INCOMPLETE = "the form is incomplete: it ends before its last boundary"
_LONG_PREAMBLE = f"the form cannot be read: no boundary is in its first {_MAX_PREAMBLE_BYTES} bytes"
# By the beginning of starlette's messages, or the whole of ours.
_FAULTS = {
    "Part exceeded": f"a field has more than {_MAX_FIELD_BYTES} bytes",
    "Too many files": "only one file can be sent, as 'file'",
    "Too many fields": f"the form has more than {_MAX_FIELDS} fields",
    "Missing boundary": "the form cannot be read: its Content-Type has no boundary",
    "The Content-Disposition": "the form cannot be read: a field has no name",
    **{fault: fault for fault in (_ENCODED, _INCOMPLETE, _LONG_PREAMBLE)},
}
# RFC 5987: charset, language and percent-encoded text.
_EXTENDED_NAME = re.compile(
    rb";\s*filename\*\s*=\s*\"?(utf-8|iso-8859-1)'[^'\";]{0,40}'([^\s;\"]+)", re.IGNORECASE
)


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


async def read_form(request: Request, check_size: CheckSize) -> FormData:
    """Read a request's form; see `Uploads.taken`. Raises BadRequest if the body is not a form."""
    boundary = _boundary(request.headers.get("content-type", ""))
    if (length := request.headers.get("content-length", "")).isdigit():
        check_size(int(length))
    parser = _Parser(request.headers, _from_boundary(request.stream(), b"--" + boundary))
    try:
        with storing():
            return await parser.parse()
    except MultiPartException as error:
        raise BadRequest(_form_fault(error.message)) from None


def _boundary(content_type: str) -> bytes:
    """Return the boundary of a form's parts. Raises BadRequest for another type."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise BadRequest(f"the body must be multipart/form-data, not {quoted(content_type)}")
    charset = options.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in _CHARSETS:
        # Python's other codecs raise other errors, are slow, or return half characters.
        raise BadRequest(f"the form's charset must be utf-8, not {quoted(charset)}")
    return options.get(b"boundary", b"")


def _form_fault(detail: str) -> str:
    """Translate starlette's error about a form into ours."""
    for theirs, ours in _FAULTS.items():
        if detail.startswith(theirs):
            return ours
    return "the form cannot be read: it is not valid multipart/form-data"


async def _from_boundary(
    body: AsyncGenerator[bytes, None], boundary: bytes
) -> AsyncGenerator[bytes, None]:
    """Yield the body without its preamble, which is all before the line of the first boundary."""
    head = b"\n"  # as if the body was the next line
    async for chunk in body:
        searched = max(0, len(head) - len(boundary))
        head += chunk
        if (at := head.find(b"\n" + boundary, searched)) >= 0:
            yield head[at + 1 :]
            break
        if len(head) > _MAX_PREAMBLE_BYTES + len(chunk):
            raise MultiPartException(_LONG_PREAMBLE)
    async for chunk in body:
        yield chunk


class _Parser(MultiPartParser):
    """starlette's parser; it also takes file names as RFC 5987 has them, and wants a whole form."""

    def __init__(self, headers: Headers, body: AsyncGenerator[bytes, None]) -> None:
        super().__init__(
            headers, body, max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
        )
        self._complete = False

    def on_headers_finished(self) -> None:
        """The headers of a part are complete. Raises MultiPartException if they cannot be used."""
        part = self._current_part
        for name, value in part.item_headers:
            encoded = name == b"content-transfer-encoding"
            if encoded and value.strip().lower() not in _UNENCODED:
                raise MultiPartException(_ENCODED)
        given = part.content_disposition or b""
        if b"filename" not in parse_options_header(given)[1] and (
            extended := _EXTENDED_NAME.search(given)
        ):
            part.content_disposition = given + b'; filename="%s"' % _decoded(*extended.groups())
        super().on_headers_finished()

    def on_end(self) -> None:
        """The last boundary was found."""
        self._complete = True

    async def parse(self) -> FormData:
        form = await super().parse()
        if not self._complete:
            await form.close()
            raise MultiPartException(_INCOMPLETE)
        return form


def _decoded(charset: bytes, text: bytes) -> bytes:
    """Return an extended file name as UTF-8, for a quoted string."""
    name = unquote_to_bytes(text).decode(charset.decode(), errors="replace")
    return re.sub(r'["\\\x00-\x1f]', "_", name).encode()


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
    return Upload(await on_disk(file), file_name(file.filename), file.size or 0, fields)
