"""A client of `/v1/audio/stream`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import websockets

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import to_int16
from auricle.errors import AuricleError, WorkerUnavailable, from_code

Event = dict[str, Any]
_OPEN_SECONDS = 10.0
_EVENT_SECONDS = 120.0
_LIVE_PACKET = SAMPLE_RATE // 10  # 100 ms, as a microphone would
_FILE_PACKET = 5 * SAMPLE_RATE


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

    `live` paces the audio in real time and asks for partial text. Raises AuricleError if the server
    refuses or fails, WorkerUnavailable if it cannot be reached.
    """
    address = url.replace("http", "ws", 1).rstrip("/") + "/v1/audio/stream"
    try:
        socket = await websockets.connect(
            address,
            additional_headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            ping_timeout=None,  # a server that holds us back reads our ping after our audio
        )
    except websockets.InvalidStatus as error:
        raise AuricleError(f"the server at {url} refused: {_reason(error)}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise WorkerUnavailable(f"no auricle server at {url}: {error}") from None
    start: dict[str, object] = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "context": context,
        "partials": live,
    }
    if language is not None:
        start["language"] = language
    async with socket:
        await socket.send(json.dumps(start))
        sending: asyncio.Task[None] | None = None
        try:
            while True:
                event = json.loads(await _receive(socket, sending))
                if event["type"] == "error":
                    raise from_code(event["code"], event["message"])
                if event["type"] == "ready":
                    sending = asyncio.create_task(_send(socket, samples, live, on_sent))
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


async def _send(
    socket: websockets.ClientConnection,
    samples: npt.NDArray[np.float32],
    live: bool,
    on_sent: Callable[[float], None],
) -> None:
    pcm = to_int16(samples)
    packet = _LIVE_PACKET if live else _FILE_PACKET
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at in range(0, len(pcm), packet):
        if live:
            # A packet can be sent once its last sample has been spoken.
            spoken = began + min(at + packet, len(pcm)) / SAMPLE_RATE
            await asyncio.sleep(max(0.0, spoken - loop.time()))
        await socket.send(pcm[at : at + packet].astype("<i2").tobytes())
        on_sent(min(at + packet, len(pcm)) / SAMPLE_RATE)
    await socket.send(json.dumps({"type": "end"}))
