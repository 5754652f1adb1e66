"""OpenAI's `POST /v1/audio/transcriptions`: the whole recording at once, nothing is paced."""

from __future__ import annotations

import io
import time

import httpx
import soundfile

from benchmarks.load.protocols import Target
from benchmarks.load.record import Failed, Record, Refused, TextEvent
from models.training.corpus import SAMPLE_RATE

_SECONDS = 1800.0


def connection() -> httpx.AsyncClient:
    """Return a client for any number of uploads at a time, to be closed."""
    return httpx.AsyncClient(timeout=_SECONDS, limits=httpx.Limits(max_connections=None))


async def run(target: Target, record: Record) -> None:
    """One upload; it counts as stopped when the request is sent."""
    async with connection() as client:
        await upload(client, target, record)


async def upload(client: httpx.AsyncClient, target: Target, record: Record) -> None:
    """One upload on a connection that is shared."""
    body = io.BytesIO()
    soundfile.write(body, record.plan.pcm, SAMPLE_RATE, format="WAV")
    record.due_at = record.sent_at = [time.monotonic()]
    record.stopped_at = record.sent_at[0]
    form = {"model": target.model, "language": "en", "temperature": "0"}
    try:
        answer = await client.post(
            f"{target.url}/v1/audio/transcriptions",
            files={"file": (f"{record.plan.name}.wav", body.getvalue())},
            data=form,
        )
    except httpx.HTTPError as error:
        raise Failed(f"{type(error).__name__}: {error}") from None
    if answer.status_code in (429, 503):
        raise Refused(answer.text, float(answer.headers.get("Retry-After", "1")))
    if answer.status_code != 200:
        raise Failed(f"HTTP status {answer.status_code}: {answer.text[:200]}")
    record.finished_at = time.monotonic()
    record.text = answer.json()["text"]
    seconds = record.plan.seconds
    record.events.append(TextEvent(record.finished_at, 0, record.text, "", True, seconds))
