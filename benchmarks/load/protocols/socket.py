"""A WebSocket as all live protocols of the load generator use it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import websockets

from benchmarks.load.record import Failed, Record, Refused

OPEN_SECONDS = 30.0
_LAST_SECONDS = 60.0
_TRY_AGAIN_LATER = 1013

Socket = websockets.ClientConnection
Message = dict[str, Any]


@contextlib.asynccontextmanager
async def connected(address: str, key: str = "") -> AsyncIterator[Socket]:
    """Raises Refused if the handshake is answered with 429 or 503, Failed if it breaks.

    Without a Retry-After the time of Refused is 0.
    """
    try:
        socket = await websockets.connect(
            address.replace("http", "ws", 1),
            additional_headers={"Authorization": f"Bearer {key}"} if key else {},
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=OPEN_SECONDS,
        )
    except websockets.InvalidStatus as error:
        status = error.response.status_code
        if status in (429, 503):
            after = float(error.response.headers.get("Retry-After", "0"))
            raise Refused(f"HTTP status {status}", after) from None
        raise Failed(f"HTTP status {status}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise Failed(f"no connection: {error}") from None
    try:
        yield socket
    finally:
        await socket.close()


async def receive(socket: Socket, seconds: float = _LAST_SECONDS) -> Message:
    """The next JSON message. Raises Refused or Failed if the connection ends instead."""
    try:
        async with asyncio.timeout(seconds):
            message: Message = json.loads(await socket.recv())
            return message
    except websockets.ConnectionClosed as error:
        close = error.rcvd
        if close is not None and close.code == _TRY_AGAIN_LATER:
            raise Refused(close.reason, 1.0) from None
        raise Failed(f"the connection ended: {error}") from None
    except TimeoutError:
        raise Failed(f"nothing came for {seconds:g} s") from None


async def converse(
    record: Record,
    socket: Socket,
    send: Callable[[], Awaitable[None]],
    hear: Callable[[Message, float], bool],
) -> None:
    """Send and receive concurrently, until `hear` returns True for the last message."""
    sending = asyncio.create_task(send())
    try:
        while True:
            wait = record.plan.seconds + _LAST_SECONDS
            message = await receive(socket, wait if not sending.done() else _LAST_SECONDS)
            if hear(message, time.monotonic()):
                break
            if sending.done() and (error := sending.exception()):
                raise Failed(f"sending failed: {error}")
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
