"""Jobs: recordings that the server transcribes after the request, see docs/jobs.md."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from auricle.client.connection import decoded, first_answer, http_address, http_client
from auricle.client.options import TranscribeOptions
from auricle.client.recordings import ANSWER_SECONDS, TRANSLATIONS, Transcript, sent_recording
from auricle.core.errors import AuricleError, DeadlineExceeded, JobNotDone, NoJobs

if TYPE_CHECKING:
    import httpx

_JOBS = "/v1/audio/jobs"
_LATER = {"Prefer": "respond-async"}
_CALL_SECONDS = 60.0


class JobFailure(msgspec.Struct, frozen=True):
    """Why a job failed: the code and the message of an error."""

    code: str
    message: str


class RecordingJob(msgspec.Struct, frozen=True):
    """A job; times are seconds since 1970. Its answer is removed at `expires_at`.

    `processed_seconds` of its audio were transcribed, while it is running.
    """

    id: str
    status: Literal["queued", "running", "done", "failed"]
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    expires_at: int | None = None
    attempts: int = 0
    processed_seconds: float | None = None
    error: JobFailure | None = None


async def submit_recording(
    urls: Sequence[str],
    api_key: str | None,
    path: str | os.PathLike[str],
    options: TranscribeOptions,
) -> RecordingJob:
    """Send a recording to the first server that answers. Raises as `Client.submit`."""
    async with http_client(api_key, options.get("timeout_seconds", ANSWER_SECONDS)) as client:
        call = partial(_submit, file=Path(path), options=options)
        return await first_answer(client, urls, call)


async def _submit(
    client: httpx.AsyncClient, url: str, file: Path, options: TranscribeOptions
) -> RecordingJob:
    path = TRANSLATIONS if options.get("translate") else _JOBS
    answer = await sent_recording(client, url, path, file, options, _LATER)
    if answer.is_success and "preference-applied" not in answer.headers:
        raise NoJobs  # without jobs, the server has translated the recording at once
    return decoded(url, answer, RecordingJob)


async def find_job(urls: Sequence[str], api_key: str | None, job: str) -> RecordingJob:
    """Return a job as it is now. Raises as `Client.job`."""
    async with http_client(api_key, _CALL_SECONDS) as client:

        async def call(client: httpx.AsyncClient, url: str) -> RecordingJob:
            return decoded(url, await client.get(http_address(url, f"{_JOBS}/{job}")), RecordingJob)

        return await first_answer(client, urls, call)


async def job_transcript(
    urls: Sequence[str], api_key: str | None, job: str, seconds: float
) -> Transcript:
    """Return the transcript of a job once it has ended. Raises as `Client.wait`."""
    deadline = time.monotonic() + seconds

    async def call(client: httpx.AsyncClient, url: str) -> Transcript:
        answer = await client.get(http_address(url, f"{_JOBS}/{job}/result"))
        return decoded(url, answer, Transcript)

    async with http_client(api_key, _CALL_SECONDS) as client:
        while True:
            try:
                return await first_answer(client, urls, call)
            except AuricleError as error:
                if error.code != JobNotDone.code:
                    raise
                wait = error.retry_after_seconds
            if time.monotonic() + wait > deadline:
                raise DeadlineExceeded(f"{job} took longer than {seconds:g} s")
            await asyncio.sleep(wait)


async def remove_job(urls: Sequence[str], api_key: str | None, job: str) -> None:
    """Remove a job. Raises as `Client.remove`."""
    async with http_client(api_key, _CALL_SECONDS) as client:

        async def call(client: httpx.AsyncClient, url: str) -> None:
            answer = await client.delete(http_address(url, f"{_JOBS}/{job}"))
            if not answer.is_success:
                decoded(url, answer, RecordingJob)

        await first_answer(client, urls, call)
