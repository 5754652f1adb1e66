"""A refused handshake is a normal answer, and not an error of the server."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import websockets
from fastapi import FastAPI, WebSocket
from fastapi.responses import JSONResponse

from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from tests.fakes.doors import Door

pytestmark = pytest.mark.unit
app = FastAPI()


@app.websocket("/")
async def refuse(socket: WebSocket) -> None:
    await socket.send_denial_response(JSONResponse({"why": "full"}, status_code=503))


async def refused(ws: Any = WebSocketProtocol) -> tuple[int, bytes | None]:
    door = Door()
    async with door.serving(app, ws=ws):
        with pytest.raises(websockets.InvalidStatus) as answer:
            await websockets.connect(f"ws://127.0.0.1:{door.port}/")
    return answer.value.response.status_code, answer.value.response.body


async def test_a_refused_handshake_is_answered_and_logs_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await refused() == (503, b'{"why":"full"}')
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_uvicorns_own_protocol_still_needs_ours(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, uvicorn has fixed the bug: remove `WebSocketProtocol.send`."""
    await refused(ws="websockets-sansio")
    assert "without completing handshake" in caplog.text
