"""A client of `/v1/audio/stream`."""

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

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_int16
from auricle.errors import AuricleError, Overloaded, WorkerUnavailable, from_code

Event = dict[str, Any]
_OPEN_SECONDS = 10.0
_EVENT_SECONDS = 120.0
_LIVE_PACKET = SAMPLE_RATE // 10  # 100 ms, as a microphone would
_FILE_PACKET = 5 * SAMPLE_RATE
# A server that is about to go is followed by another; until then nobody lets us in.
_COME_AGAIN_SECONDS = 60.0
_COME_AGAIN_PAUSE_SECONDS = 0.5
_TIMES = ("at_ms", "start_ms", "end_ms", "audio_ms")


@dataclass
class _Whole:
    """What a client sees of sessions that go on one from the other: one."""

    offset_ms: int = 0
    segments: int = 0
    texts: list[str] = field(default_factory=list)
    began: float | None = None  # when the first sample was spoken, on the loop's clock

    def shown(self, event: Event) -> Event:
        """The event, as if there were one session."""
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
        """The next session begins where this one was left."""
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
    """Send 16 kHz mono samples; yields the server's events, the last being `done`.

    A server that is about to go is left for another at the same address, without a gap.
    `live` paces the audio in real time and asks for partial text. Raises AuricleError if the
    server refuses or fails, WorkerUnavailable if it cannot be reached.
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
    """A connection; `again` is patient with servers that have no room yet."""
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
    address = url.replace("http", "ws", 1).rstrip("/") + "/v1/audio/stream"
    try:
        return await websockets.connect(
            address,
            additional_headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            ping_timeout=None,  # a server that holds us back reads our ping after our audio
        )
    except websockets.InvalidStatus as error:
        kind = Overloaded if error.response.status_code == 503 else AuricleError
        raise kind(f"the server at {url} refused: {_reason(error)}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise WorkerUnavailable(f"no auricle server at {url}: {error}") from None


async def _events(
    socket: websockets.ClientConnection, start: Event, sender: _Sender
) -> AsyncGenerator[Event, None]:
    """Of one session, while its audio is sent."""
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
    """The message of an error answer, or its status."""
    try:
        return str(json.loads(error.response.body or b"")["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.response.status_code}"


async def _receive(socket: websockets.ClientConnection, sending: asyncio.Task[None] | None) -> str:
    """The next event. While audio is being sent the server may well have nothing to say."""
    while True:
        try:
            async with asyncio.timeout(_EVENT_SECONDS):
                return str(await socket.recv())
        except TimeoutError:
            if sending is None or sending.done():
                raise


class _Sender:
    """Sends audio from sample `begin` on; what has been spoken already, at once."""

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
        """All of it, and the end."""
        packet = _LIVE_PACKET if self._live else _FILE_PACKET
        loop = asyncio.get_running_loop()
        if self._whole.began is None:
            self._whole.began = loop.time()
        for at in range(self._begin, len(self._pcm), packet):
            end = min(at + packet, len(self._pcm))
            if self._live:
                # A packet can be sent once its last sample has been spoken.
                spoken = self._whole.began + end / SAMPLE_RATE
                await asyncio.sleep(max(0.0, spoken - loop.time()))
            await socket.send(self._pcm[at:end].astype("<i2").tobytes())
            self._on_sent(end / SAMPLE_RATE)
        await socket.send(json.dumps({"type": "end"}))
