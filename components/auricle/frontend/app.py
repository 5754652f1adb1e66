"""The HTTP application: routes and what they hand over to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from auricle import __version__
from auricle.frontend.websocket import StreamSessions
from auricle.metrics import Registry


def create_app(
    model: str,
    sessions: StreamSessions,
    registry: Registry,
    processors: Callable[[], Awaitable[int]],
) -> FastAPI:
    """`processors` counts the processors that can be called now."""
    app = FastAPI(title="auricle", version=__version__)
    created = int(time.time())

    @app.get("/live")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health")
    async def health() -> JSONResponse:
        count = await processors()
        status = "ready" if count else "no processor is running"
        return JSONResponse(
            {"status": status, "processors": count}, status_code=200 if count else 503
        )

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(registry.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        entry = {"id": model, "object": "model", "created": created, "owned_by": "auricle"}
        return {"object": "list", "data": [entry]}

    @app.websocket("/v1/audio/stream")
    async def stream(socket: WebSocket) -> None:
        await sessions.serve(socket)

    return app
