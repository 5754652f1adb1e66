"""Recordings, through `POST /v1/audio/transcriptions`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auricle.client.addresses import http_address
from auricle.client.http_calls import decoded, first_answer, served_model
from auricle.client.options import TranscribeOptions
from auricle.errors import BadRequest

if TYPE_CHECKING:
    import httpx

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
    file = Path(path)
    seconds = options.get("timeout_seconds", _ANSWER_SECONDS)
    call = partial(_transcribe, file=file, options=options)
    return await first_answer(urls, api_key, seconds, call)


async def _transcribe(
    client: httpx.AsyncClient, url: str, file: Path, options: TranscribeOptions
) -> Transcript:
    model = options.get("model") or (await served_model(client, url)).id
    form: dict[str, str | list[str]] = {"model": model, "response_format": "verbose_json"}
    if language := options.get("language"):
        form["language"] = language
    if languages := options.get("languages"):
        form["languages[]"] = list(languages)
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
    return decoded(url, response, Transcript)
