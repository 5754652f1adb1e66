"""Transcription of recordings, which the server decodes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auricle.client.connection import (
    decoded,
    first_answer,
    http_address,
    http_client,
    served_model,
)
from auricle.client.errors import ServerUnreachable
from auricle.client.options import TranscribeOptions
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    Forbidden,
    Overloaded,
    RateLimited,
    Unauthorized,
)

if TYPE_CHECKING:
    import httpx

ANSWER_SECONDS = 3600.0
TRANSLATIONS = "/v1/audio/translations"
_SHORTEST_WAIT_SECONDS = 0.5
# These concern all recordings alike.
_FATAL = (ServerUnreachable, Unauthorized, Forbidden)


class Segment(msgspec.Struct, frozen=True):
    """A part of a recording; `start` and `end` are seconds from the recording's start.

    `avg_logprob` is the mean log probability of its tokens, if known.
    """

    start: float
    end: float
    text: str
    avg_logprob: float | None = None


class TimedWord(msgspec.Struct, frozen=True):
    """A word without punctuation, its time in seconds, and the model's confidence, if known."""

    word: str
    start: float
    end: float
    confidence: float | None = None


class SpeakerText(msgspec.Struct, frozen=True):
    """The text of one turn of a speaker (A, B, … or `unknown`); times are in seconds."""

    speaker: str
    start: float
    end: float
    text: str


class Transcript(msgspec.Struct, frozen=True):
    """The text of a recording of `duration` seconds, with the language of most segments.

    The language of a translation is its target. `words` and `speakers` are empty unless requested.
    `warnings` name, among others, missing audio.
    """

    text: str
    language: str
    duration: float
    segments: tuple[Segment, ...]
    words: tuple[TimedWord, ...] = ()
    speakers: tuple[SpeakerText, ...] = ()
    warnings: tuple[str, ...] = ()


async def transcribe_recording(
    urls: Sequence[str],
    api_key: str | None,
    path: str | os.PathLike[str],
    options: TranscribeOptions,
) -> Transcript:
    """Transcribe a recording at the first server that answers. Raises as `Client.transcribe`."""
    async with http_client(api_key, options.get("timeout_seconds", ANSWER_SECONDS)) as client:
        call = partial(_transcribe, file=Path(path), options=options)
        return await first_answer(client, urls, call)


async def _transcribe(
    client: httpx.AsyncClient, url: str, file: Path, options: TranscribeOptions
) -> Transcript:
    path = TRANSLATIONS if options.get("translate") else "/v1/audio/transcriptions"
    answer = await sent_recording(client, url, path, file, options)
    return decoded(url, answer, Transcript)


async def sent_recording(
    client: httpx.AsyncClient,
    url: str,
    path: str,
    file: Path,
    options: TranscribeOptions,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Return the answer to a file that is sent to a server's `path`.

    Raises BadRequest if it cannot be read.
    """
    model = options.get("model") or (await served_model(client, url)).id
    try:
        with file.open("rb") as opened:  # httpx reads it piece by piece
            return await client.post(
                http_address(url, path),
                data={"model": model, "response_format": "verbose_json", **_form(options)},
                files={"file": (file.name, opened)},
                headers=headers,
            )
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from None


def _form(options: TranscribeOptions) -> dict[str, str | list[str]]:
    """Return the fields of the options; the server has defaults for missing ones."""
    fields: dict[str, str | list[str]] = {}
    if language := options.get("language"):
        fields["language"] = language
    if languages := options.get("languages"):
        fields["languages[]"] = list(languages)
    if prompt := options.get("prompt"):
        fields["prompt"] = prompt
    if on_damage := options.get("on_damage"):
        fields["on_damage"] = on_damage
    if options.get("words"):
        fields["timestamp_granularities[]"] = "word"
    if options.get("speakers"):
        fields["speakers"] = "true"
    if (most := options.get("max_speakers")) is not None:
        fields["max_speakers"] = str(most)
    if translate := options.get("translate"):
        fields["to_language"] = translate
    return fields


async def transcribe_recordings(
    urls: Sequence[str],
    api_key: str | None,
    paths: Iterable[str | os.PathLike[str]],
    jobs: int,
    options: TranscribeOptions,
) -> AsyncGenerator[tuple[Path, Transcript | AuricleError], None]:
    """Transcribe recordings, at most `jobs` at a time; see `Client.transcribe_many`."""
    if jobs < 1:
        raise BadRequest("jobs must be at least 1", "jobs")
    async with http_client(api_key, options.get("timeout_seconds", ANSWER_SECONDS)) as client:
        model = options.get("model") or (await first_answer(client, urls, served_model)).id
        calls = _Calls(client, urls, {**options, "model": model})
        waiting = iter([Path(path) for path in paths])
        running: dict[asyncio.Task[Transcript], Path] = {}
        try:
            while True:
                while len(running) < jobs and (path := next(waiting, None)) is not None:
                    running[asyncio.create_task(calls.when_there_is_room(path))] = path
                if not running:
                    return
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    yield running.pop(task), _outcome(task)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def _outcome(task: asyncio.Task[Transcript]) -> Transcript | AuricleError:
    try:
        return task.result()
    except _FATAL:
        raise
    except AuricleError as error:
        return error


@dataclass(frozen=True)
class _Calls:
    """Calls on one set of connections, for one model."""

    client: httpx.AsyncClient
    urls: Sequence[str]
    options: TranscribeOptions

    async def when_there_is_room(self, path: Path) -> Transcript:
        """Transcribe a recording; while the server is full, try again until the deadline."""
        call = partial(_transcribe, file=path, options=self.options)
        deadline = time.monotonic() + self.options.get("timeout_seconds", ANSWER_SECONDS)
        while True:
            try:
                return await first_answer(self.client, self.urls, call)
            except (Overloaded, RateLimited) as error:
                wait = max(error.retry_after_seconds, _SHORTEST_WAIT_SECONDS)
                if time.monotonic() + wait > deadline:
                    raise
                await asyncio.sleep(wait)
