"""A client of the WebSocket `/v1/audio/stream`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import websockets

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_int16
from auricle.errors import (
    AuricleError,
    BadRequest,
    Overloaded,
    WorkerUnavailable,
    from_code,
)

Event = dict[str, Any]
_OPEN_SECONDS = 10.0
_EVENT_SECONDS = 120.0
_LIVE_PACKET = SAMPLE_RATE // 10  # 100 ms in samples, like a microphone
_FILE_PACKET = 5 * SAMPLE_RATE
# After a server has drained, how long and how often to retry until another accepts the session.
_COME_AGAIN_SECONDS = 60.0
_COME_AGAIN_PAUSE_SECONDS = 0.5
_TIMES = ("at_ms", "start_ms", "end_ms", "audio_ms")


@dataclass
class _Whole:
    """Joins sessions that continue one another into one, for the events shown to the caller.

    `offset_ms`, `segments` and `texts` are those of the sessions before the current one.
    """

    offset_ms: int = 0
    segments: int = 0
    texts: list[str] = field(default_factory=list)
    began: float | None = None  # when the first sample was due, on the loop's clock

    def shown(self, event: Event) -> Event:
        """Return the event with times and segment numbers counted from the first session."""
        for name in _TIMES:
            if name in event:
                event[name] += self.offset_ms
        if "segment" in event:
            event["segment"] += self.segments
        if event["type"] == "final" and event["text"]:
            self.texts.append(event["text"])
        if event["type"] == "done" and self.offset_ms:
            event["text"] = " ".join(self.texts)
        return event

    def moved(self, event: Event, segments: int) -> None:
        """Continue in another session, after `event` (`going_away`) and `segments` finals."""
        self.offset_ms += event["resume_ms"]
        self.segments += segments


async def stream_file(
    url: str,
    samples: npt.NDArray[np.float32],
    *,
    live: bool,
    language: str | None = None,
    context: str = "",
    api_key: str | None = None,
    on_sent: Callable[[float], None] = lambda _seconds: None,
) -> AsyncGenerator[Event, None]:
    """Send 16 kHz mono float32 samples and yield the server's events; the last is `done`.

    If the server drains, the session continues on another one at the same address, without a
    gap. `live` sends the audio in real time and requests partial text. `on_sent` is called on
    the event loop with the seconds of audio sent. Raises BadRequest for an address of another
    form, WorkerUnavailable if the server cannot be reached or closes the connection, and
    another AuricleError if it refuses, fails, or sends nothing for 120 s.
    """
    start: Event = {"type": "start", "sample_rate": SAMPLE_RATE, "partials": live}
    if language is not None:
        start["language"] = language
    pcm, whole = to_int16(samples), _Whole()
    while True:
        socket = await _connected(url, api_key, again=whole.offset_ms > 0)
        begin = whole.offset_ms * SAMPLE_RATE // 1000
        sender = _Sender(pcm, begin, whole, live=live, on_sent=on_sent)
        segments, left = 0, None
        async with (
            socket,
            aclosing(_events(socket, start | {"context": context}, sender)) as events,
        ):
            async for event in events:
                if event["type"] == "going_away":
                    left = event
                    break
                segments += event["type"] == "final"
                if event["type"] != "ready" or not whole.offset_ms:
                    yield whole.shown(event)
        if left is None:
            return
        context = left["context"]
        whole.moved(left, segments)


async def _connected(url: str, api_key: str | None, *, again: bool) -> websockets.ClientConnection:
    """Connect to the server; with `again`, retry for 60 s while servers refuse or are down."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + (_COME_AGAIN_SECONDS if again else 0.0)
    while True:
        try:
            return await _connect(url, api_key)
        except (Overloaded, WorkerUnavailable):
            if loop.time() > give_up:
                raise
            await asyncio.sleep(_COME_AGAIN_PAUSE_SECONDS)


async def _connect(url: str, api_key: str | None) -> websockets.ClientConnection:
    address = _socket_address(url)
    try:
        return await websockets.connect(
            address,
            additional_headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            ping_timeout=None,  # under backpressure the server reads a ping only after our audio
        )
    except websockets.InvalidStatus as error:
        kind = Overloaded if error.response.status_code == 503 else AuricleError
        raise kind(f"the server at {url} refused: {_reason(error)}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise WorkerUnavailable(f"no auricle server at {url}: {error}") from None


def _socket_address(url: str) -> str:
    """Return the WebSocket's URL. Raises BadRequest unless `url` is of HTTP or WebSocket."""
    for begin, protocol in (("http", "ws"), ("https", "wss"), ("ws", "ws"), ("wss", "wss")):
        if url.lower().startswith(f"{begin}://"):
            return f"{protocol}://{url[len(begin) + 3 :].rstrip('/')}/v1/audio/stream"
    raise BadRequest(
        f"{url} is not the address of a server; "
        "it must begin with http://, https://, ws:// or wss://"
    )


async def _events(
    socket: websockets.ClientConnection, start: Event, sender: _Sender
) -> AsyncGenerator[Event, None]:
    """Yield the events of one session while `sender` sends its audio."""
    await socket.send(json.dumps(start))
    sending: asyncio.Task[None] | None = None
    try:
        while True:
            event = json.loads(await _receive(socket, sending))
            if event["type"] == "error":
                raise from_code(event["code"], event["message"])
            if event["type"] == "ready":
                sending = asyncio.create_task(sender.run(socket))
            yield event
            if event["type"] == "done":
                return
    except websockets.ConnectionClosed as error:
        raise WorkerUnavailable(f"the server closed the connection: {error}") from None
    except TimeoutError:
        raise AuricleError(f"the server sent nothing for {_EVENT_SECONDS:g} s") from None
    finally:
        if sending is not None:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, websockets.ConnectionClosed):
                await sending


def _reason(error: websockets.InvalidStatus) -> str:
    """Return the message of an error response, or its status."""
    try:
        return str(json.loads(error.response.body or b"")["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.response.status_code}"


async def _receive(socket: websockets.ClientConnection, sending: asyncio.Task[None] | None) -> str:
    """Return the next event. Raises TimeoutError after 120 s, but not while audio is sent."""
    while True:
        try:
            async with asyncio.timeout(_EVENT_SECONDS):
                return str(await socket.recv())
        except TimeoutError:
            if sending is None or sending.done():
                raise


class _Sender:
    """Sends audio from sample `begin` on; with `live`, in real time.

    Audio that was due before the session began is sent at once.
    """

    def __init__(
        self,
        pcm: Int16,
        begin: int,
        whole: _Whole,
        *,
        live: bool,
        on_sent: Callable[[float], None],
    ) -> None:
        self._pcm = pcm
        self._begin = begin
        self._whole = whole
        self._live = live
        self._on_sent = on_sent

    async def run(self, socket: websockets.ClientConnection) -> None:
        """Send all audio and the end message."""
        packet = _LIVE_PACKET if self._live else _FILE_PACKET
        loop = asyncio.get_running_loop()
        if self._whole.began is None:
            self._whole.began = loop.time()
        for at in range(self._begin, len(self._pcm), packet):
            end = min(at + packet, len(self._pcm))
            if self._live:
                # In real time, a packet is complete when its last sample has been spoken.
                spoken = self._whole.began + end / SAMPLE_RATE
                await asyncio.sleep(max(0.0, spoken - loop.time()))
            await socket.send(self._pcm[at:end].astype("<i2").tobytes())
            self._on_sent(end / SAMPLE_RATE)
        await socket.send(json.dumps({"type": "end"}))
