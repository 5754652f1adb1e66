"""Probes of a frontend under load: the latency of /health and the lag of live text."""

from __future__ import annotations

import asyncio
import time

import httpx
import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols import Target, stream
from benchmarks.load.record import Record

_PACKET_SECONDS = 0.1
_LAST_SECONDS = 60.0
_POLL_SECONDS = 0.02


async def health(url: str, seconds: float) -> list[float]:
    """Milliseconds of each of about 50 answers a second, one connection; 5 s if none came."""
    took: list[float] = []
    end = time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=url, timeout=5.0) as client:
        while (began := time.monotonic()) < end:
            try:
                answer = await client.get("/health")
                answer.raise_for_status()
            except httpx.TimeoutException:
                pass
            took.append(1000 * (time.monotonic() - began))
            await asyncio.sleep(max(0.0, _POLL_SECONDS - (time.monotonic() - began)))
    return took


async def live_lag(url: str, speech: Int16, seconds: float) -> list[float]:
    """Run one live session; return the seconds from the audio of each partial to its text.

    The duration of the audio is not included. A session that does not end within a minute of its
    audio counts with that minute. Raises Failed if the session fails, because its lags until then
    would be too favourable.
    """
    audio = np.resize(speech, int(seconds * SAMPLE_RATE)).astype("<i2")
    record = Record(SessionPlan("probe", audio, (), ()), _PACKET_SECONDS, time.monotonic())
    late: list[float] = []
    try:
        async with asyncio.timeout(seconds + _LAST_SECONDS):
            await stream.run(Target(url, "demo", language=None), record)
    except TimeoutError:
        late = [_LAST_SECONDS]
    partials = [event for event in record.events if not event.final and event.covered is not None]
    began = record.due_at[0] - _PACKET_SECONDS
    return [event.at - began - (event.covered or 0.0) for event in partials] + late
