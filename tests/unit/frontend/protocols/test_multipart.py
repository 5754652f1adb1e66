"""Forms as clients write them, and those that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from auricle.core.errors import BadRequest
from auricle.frontend.protocols.transcriptions.multipart import Upload, read_form, take_upload

pytestmark = pytest.mark.unit
FORM = "multipart/form-data; boundary=XX"


def part(disposition: str, content: bytes, *headers: str) -> bytes:
    head = "\r\n".join((f"Content-Disposition: form-data; {disposition}", *headers))
    return b"--XX\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


MODEL = part('name="model"', b"demo")
FILE = part('name="file"; filename="a.wav"', b"RIFF", "Content-Type: audio/wav")
END = b"--XX--\r\n"


async def uploaded(pieces: Sequence[bytes], content_type: str = FORM) -> tuple[Upload, bytes]:
    """The upload of a body that comes in pieces, and its file."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        return messages.pop(0)

    scope = {"type": "http", "headers": [(b"content-type", content_type.encode())]}
    form = await read_form(Request(scope, receive), lambda _size: None)
    upload = await take_upload(form)
    content = upload.path.read_bytes()
    await form.close()
    return upload, content


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize(
    "body",
    [
        FILE + MODEL + END,
        FILE + MODEL + b"--XX--",
        b"\r\n" + FILE + MODEL + END,
        b"a preamble with --XX in it\r\nand a --XX line\r\n" + FILE + MODEL + END,
        FILE + MODEL + END + b"an epilogue\r\n" + FILE,
        FILE.replace(b"Content-", b"content-") + MODEL.replace(b"Content-", b"CONTENT-") + END,
        FILE.replace(b"disposition: ", b"disposition:").replace(b"; ", b";") + MODEL + END,
        part("name=file; filename=a.wav", b"RIFF") + part("name=model", b"demo") + END,
        part("filename=a.wav; name=file", b"RIFF") + MODEL + END,
        part('name="file"; filename="a.wav"', b"RIFF", "Content-Transfer-Encoding: binary")
        + part('name="model"', b"demo", "Content-Transfer-Encoding: 8bit")
        + END,
        part('name="file"; filename="a.wav"', b"RIFF", "Content-Type:", "Content-Length: 4")
        + MODEL
        + END,
    ],
)
async def test_a_form_is_read_as_clients_write_it(body: bytes, cut: int) -> None:
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    upload, content = await uploaded(pieces)
    assert (upload.name, upload.fields, content) == ("a.wav", (("model", "demo"),), b"RIFF")


@pytest.mark.parametrize(
    "content_type",
    [
        "Multipart/Form-Data; BOUNDARY=XX",
        'multipart/form-data;boundary="XX"',
        "multipart/form-data; charset=UTF-8; boundary=XX",
    ],
)
async def test_the_boundary_is_named_in_several_ways(content_type: str) -> None:
    assert (await uploaded([FILE + MODEL + END], content_type))[1] == b"RIFF"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("filename*=UTF-8''caf%C3%A9.wav", "café.wav"),
        ("filename*=utf-8'fr'caf%C3%A9.wav", "café.wav"),
        ("filename*=iso-8859-1''caf%E9.wav", "café.wav"),
        ("filename*=\"UTF-8''caf%C3%A9.wav\"", "café.wav"),
        ("filename* = UTF-8''a%22b%0D%5C.wav", "a_b__.wav"),
        ("filename*=UTF-8''%FF.wav", "\ufffd.wav"),
        ("filename=\"a.wav\"; filename*=UTF-8''caf%C3%A9.wav", "a.wav"),
        ('filename="a\\"b;.wav"', 'a"b;.wav'),
        ('filename="caf\u00e9.wav"', "café.wav"),
        ('filename=""', "the file"),
    ],
)
async def test_a_file_name_may_be_extended_or_quoted(given: str, name: str) -> None:
    upload, content = await uploaded([part(f'name="file"; {given}', b"RIFF") + MODEL + END])
    assert (upload.name, content) == (name, b"RIFF")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (FILE + MODEL, "the form is incomplete: it ends before its last boundary"),
        ((FILE + MODEL)[:-2], "the form is incomplete: it ends before its last boundary"),
        (FILE + MODEL + b"--XX", "the form is incomplete: it ends before its last boundary"),
        (b"", "the form is incomplete: it ends before its last boundary"),
        (b"x" * 30_000 + FILE, "no boundary is in its first 8192 bytes"),
        (
            part('name="file"; filename="a"', b"UklG", "Content-Transfer-Encoding: base64") + END,
            "a part is encoded: only binary is understood as Content-Transfer-Encoding",
        ),
        (part("filename=a", b"RIFF") + END, "a field has no name"),
        (FILE + FILE + END, "only one file can be sent"),
        (FILE + part('name="prompt"', b"x" * 70_000) + END, "a field has more than 65536 bytes"),
    ],
)
async def test_a_form_that_cannot_be_read_is_told_its_fault(body: bytes, fault: str) -> None:
    pieces = [body[at : at + 5_000] for at in range(0, len(body), 5_000)]
    with pytest.raises(BadRequest, match=fault):
        await uploaded(pieces)
