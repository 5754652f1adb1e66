"""Streams audio to `/v1/audio/stream`, as it comes, at once or in real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import SAMPLE_RATE
from auricle.client.kept_audio import KeptAudio, SourceFailed
from auricle.client.reconnecting import Message, ReconnectingSession
from auricle.client.sources import Audio, open_source
from auricle.tasks import cancelled

__all__ = ["RESUME_SECONDS", "Event", "Message", "stream_audio", "stream_file"]
Event = Message
RESUME_SECONDS = 120.0  # the default of Frontend.resume_seconds
_LIVE_PACKETS_PER_SECOND = 10  # like a microphone
_PACKET_SECONDS = 5


async def stream_audio(
    urls: Sequence[str],
    start: Message,
    audio: Audio,
    *,
    live: bool,
    api_key: str | None,
    resume_seconds: float,
    on_sent: Callable[[float], None],
    on_lost: Callable[[str], None],
) -> AsyncGenerator[Message, None]:
    """Run the session that begins with the message `start`, and yield the server's messages.

    If the connection is lost or the server shuts down, the session is resumed at the next of
    `urls`, for up to `resume_seconds`: every event comes once, and no audio is lost. `on_lost` is
    called with a line that says so. `live` says that audio comes in real time; what is at hand is
    sent so then. `on_sent` is called on the event loop with the seconds of audio sent. Raises
    what `ReconnectingSession.events` does, but of SourceFailed what the source has raised.
    """
    kept = KeptAudio(audio.rate)
    session = ReconnectingSession(
        urls,
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
                    feeding = asyncio.create_task(_feed(kept, audio, live=live))
                yield event
    except SourceFailed as failed:
        raise failed.error from None
    finally:
        if feeding is not None:
            await cancelled([feeding])


async def stream_file(
    url: str | Sequence[str],
    samples: npt.NDArray[np.float32],
    *,
    live: bool,
    language: str | None = None,
    context: str = "",
    api_key: str | None = None,
    resume_seconds: float = RESUME_SECONDS,
    on_sent: Callable[[float], None] = lambda _seconds: None,
    on_lost: Callable[[str], None] = lambda _line: None,
) -> AsyncGenerator[Message, None]:
    """Send 16 kHz mono float32 samples and yield the server's messages; the last is `done`.

    `live` sends the audio in real time and requests partial text. See `stream_audio`. For tests
    and measurements, which look at the messages themselves.
    """
    start: Message = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "partials": live,
        "context": context,
    }
    if language is not None:
        start["language"] = language
    messages = stream_audio(
        [url] if isinstance(url, str) else url,
        start,
        open_source(samples, None),
        live=live,
        api_key=api_key,
        resume_seconds=resume_seconds,
        on_sent=on_sent,
        on_lost=on_lost,
    )
    async with aclosing(messages):
        async for message in messages:
            yield message


async def _feed(kept: KeptAudio, audio: Audio, *, live: bool) -> None:
    """Put in all audio; what is at hand in real time with `live`, however the connections are."""
    loop = asyncio.get_running_loop()
    paced = live and audio.at_hand
    most = audio.rate // _LIVE_PACKETS_PER_SECOND if paced else audio.rate * _PACKET_SECONDS
    began, position = loop.time(), 0
    try:
        async with aclosing(audio.packets) as packets:
            async for packet in packets:
                for at in range(0, len(packet), most):
                    part = packet[at : at + most]
                    position += len(part)
                    if paced:
                        # In real time, a packet is complete when its last sample has been spoken.
                        spoken = began + position / audio.rate
                        await asyncio.sleep(max(0.0, spoken - loop.time()))
                    await kept.put(part)
    except asyncio.CancelledError:
        # The session is over; or the source was cancelled, and the session would wait for it.
        kept.fail(RuntimeError("the source of the audio was cancelled"))
        raise
    except Exception as error:  # it is the caller's, who hears of it where the events are read
        kept.fail(error)
    else:
        kept.finish()
