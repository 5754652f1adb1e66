"""Streams a file to `/v1/audio/stream`, at once or in real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_int16
from auricle.client.kept_audio import KeptAudio
from auricle.client.reconnecting import Event, ReconnectingSession
from auricle.tasks import cancelled

__all__ = ["Event", "stream_file"]
_RESUME_SECONDS = 120.0  # the default of Frontend.resume_seconds
_LIVE_PACKET = SAMPLE_RATE // 10  # 100 ms in samples, like a microphone
_FILE_PACKET = 5 * SAMPLE_RATE


async def stream_file(
    url: str | Sequence[str],
    samples: npt.NDArray[np.float32],
    *,
    live: bool,
    language: str | None = None,
    context: str = "",
    api_key: str | None = None,
    resume_seconds: float = _RESUME_SECONDS,
    on_sent: Callable[[float], None] = lambda _seconds: None,
    on_lost: Callable[[str], None] = lambda _line: None,
) -> AsyncGenerator[Event, None]:
    """Send 16 kHz mono float32 samples and yield the server's events; the last is `done`.

    If the connection is lost or the server shuts down, the session is resumed at the next of the
    servers `url`, for up to `resume_seconds`: every event comes once, and no audio is lost.
    `on_lost` is called with a line that says so. `live` sends the audio in real time and requests
    partial text. `on_sent` is called on the event loop with the seconds of audio sent. Raises
    BadRequest for an address of another form, WorkerUnavailable if no server can be reached, and
    another AuricleError if one refuses, fails, or sends nothing for 120 s.
    """
    start: Event = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "partials": live,
        "context": context,
    }
    if language is not None:
        start["language"] = language
    kept = KeptAudio()
    session = ReconnectingSession(
        [url] if isinstance(url, str) else url,
        start,
        kept,
        live=live,
        api_key=api_key,
        resume_seconds=resume_seconds,
        on_sent=on_sent,
        on_lost=on_lost,
    )
    feeding: asyncio.Task[None] | None = None
    try:
        async with aclosing(session.events()) as events:
            async for event in events:
                if feeding is None:  # the session has begun
                    feeding = asyncio.create_task(_feed(kept, to_int16(samples), live=live))
                yield event
    finally:
        if feeding is not None:
            await cancelled([feeding])


async def _feed(kept: KeptAudio, pcm: Int16, *, live: bool) -> None:
    """Put in all audio; with `live` in real time, however the connections are."""
    loop = asyncio.get_running_loop()
    began, packet = loop.time(), _LIVE_PACKET if live else _FILE_PACKET
    for at in range(0, len(pcm), packet):
        part = pcm[at : at + packet]
        if live:
            # In real time, a packet is complete when its last sample has been spoken.
            spoken = began + (at + len(part)) / SAMPLE_RATE
            await asyncio.sleep(max(0.0, spoken - loop.time()))
        await kept.put(part)
    kept.finish()
