"""Recordings, through `POST /v1/audio/transcriptions`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from auricle.client.addresses import http_address
from auricle.client.errors import ServerUnreachable, refusal
from auricle.client.options import TranscribeOptions
from auricle.errors import AuricleError, BadRequest, DeadlineExceeded

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_CONNECT_SECONDS = 10.0
_SEND_SECONDS = 60.0  # for a piece of the upload to be taken
_ANSWER_SECONDS = 3600.0


class Segment(msgspec.Struct, frozen=True):
    """A part of a recording; `start` and `end` are seconds from its begin."""

    start: float
    end: float
    text: str


class Transcript(msgspec.Struct, frozen=True):
    """The text of a recording of `duration` seconds; `language` is the most frequent one."""

    text: str
    language: str
    duration: float
    segments: tuple[Segment, ...]


async def transcribe_recording(
    urls: Sequence[str],
    api_key: str | None,
    path: str | os.PathLike[str],
    options: TranscribeOptions,
) -> Transcript:
    """Have a recording transcribed by the first of the servers that answers.

    Raises as `Client.transcribe`.
    """
    # It takes a while to import, and live sessions do not need it.
    import httpx

    file = Path(path)
    seconds = options.get("timeout_seconds", _ANSWER_SECONDS)
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    limits = httpx.Timeout(seconds, connect=_CONNECT_SECONDS, write=_SEND_SECONDS)
    async with httpx.AsyncClient(headers=headers, timeout=limits) as client:
        for left in reversed(range(len(urls))):
            url = urls[len(urls) - 1 - left]
            try:
                return await _transcribe(client, url, file, options)
            except httpx.ReadTimeout:
                raise DeadlineExceeded(
                    f"the server at {url} took longer than {seconds:g} s"
                ) from None
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if not left:
                    raise ServerUnreachable(f"no auricle server at {url}: {error}") from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise AuricleError(f"the server at {url} did not answer: {error!r}") from None
    raise AssertionError("there is no server to ask")


async def _transcribe(
    client: httpx.AsyncClient, url: str, file: Path, options: TranscribeOptions
) -> Transcript:
    model = options.get("model") or await _served_model(client, url)
    form = {"model": model, "response_format": "verbose_json"}
    if language := options.get("language"):
        form["language"] = language
    if prompt := options.get("prompt"):
        form["prompt"] = prompt
    try:
        with file.open("rb") as opened:  # a moment only; httpx reads it piece by piece
            response = await client.post(
                http_address(url, "/v1/audio/transcriptions"),
                data=form,
                files={"file": (file.name, opened)},
            )
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from None
    return _decoded(url, response, Transcript)


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: tuple[_Model, ...]


async def _served_model(client: httpx.AsyncClient, url: str) -> str:
    found = _decoded(url, await client.get(http_address(url, "/v1/models")), _Models)
    if not found.data:
        raise AuricleError(f"the server at {url} serves no model")
    return found.data[0].id


def _decoded(url: str, response: httpx.Response, kind: type[T]) -> T:
    """Return the body of a response. Raises the error that it reports."""
    if response.is_success:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise AuricleError(f"{url} is no auricle server: {error}") from None
    raise refusal(url, response.status_code, response.content, response.headers.get("retry-after"))
