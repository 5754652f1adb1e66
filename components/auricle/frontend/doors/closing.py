"""Closes WebSockets, however far gone they are."""

from __future__ import annotations

import logging

from fastapi import WebSocket, WebSocketDisconnect

from auricle.errors import AuricleError
from auricle.tasks import within

log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
_REASON_BYTES = 120  # a control frame has room for 123


async def close_socket(socket: WebSocket, code: int, reason: str = "") -> None:
    """Close the connection. Never raises; gives up after 5 s."""
    try:
        short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await within(_CLOSE_SECONDS, socket.close(code, short), "closing")
    except (WebSocketDisconnect, RuntimeError, AuricleError):
        log.debug("the client left before the close frame was sent")
