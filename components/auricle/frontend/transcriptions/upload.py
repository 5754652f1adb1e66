"""Reads a multipart request's body: fields into memory, the file to disk after the first MB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from auricle.errors import BadRequest, UnsupportedValue
from auricle.frontend.recordings.storage import storing
from auricle.frontend.recordings.uploads import CheckSize, on_disk
from auricle.quoting import quoted
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


async def read_form(request: Request, check_size: CheckSize) -> FormData:
    """Read a request's form; see `Uploads.taken`. Raises BadRequest if it is none."""
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
    return Upload(await on_disk(file), file_name(file.filename), file.size or 0, fields)
