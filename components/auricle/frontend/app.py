"""The HTTP application: routes and what they hand over to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from auricle import __version__
from auricle.errors import AuricleError, UnknownModel
from auricle.frontend.access.gate import Access
from auricle.frontend.http_errors import error_response
from auricle.frontend.transcriptions.schema import TRANSCRIPTION_OPENAPI
from auricle.metrics import Registry

WebSocketSessions = Callable[[WebSocket], Awaitable[None]]


@dataclass(frozen=True)
class Services:
    """What answers each route. `processors` counts those that can be called now."""

    models: tuple[str, ...]
    access: Access
    stream: WebSocketSessions
    realtime: WebSocketSessions
    transcriptions: ASGIApp
    registry: Registry
    processors: Callable[[], Awaitable[int]]


def create_app(services: Services, cors_origins: tuple[str, ...] = ()) -> FastAPI:
    """All routes. What needs a key checks it itself; health and metrics are open."""
    app = FastAPI(title="auricle", version=__version__, docs_url="/docs", redoc_url=None)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=cors_origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(AuricleError, _our_error)
    _add_status_routes(app, services)
    _add_model_routes(app, services)

    @app.post("/v1/audio/transcriptions", openapi_extra=TRANSCRIPTION_OPENAPI, tags=["audio"])
    async def create_transcription() -> Response:
        """Transcribe a recording, as OpenAI's API does."""
        return _Handled(services.transcriptions)

    @app.websocket("/v1/audio/stream")
    async def stream(socket: WebSocket) -> None:
        await services.stream(socket)

    @app.websocket("/v1/realtime")
    async def realtime(socket: WebSocket) -> None:
        await services.realtime(socket)

    return app


def _add_status_routes(app: FastAPI, services: Services) -> None:
    @app.get("/live", tags=["status"])
    async def live() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "live"}

    @app.get("/health", tags=["status"], responses={503: {"description": "not ready"}})
    async def health() -> JSONResponse:
        """Whether sessions can be served."""
        count = await services.processors()
        status = "ready" if count else "no processor is running"
        return JSONResponse(
            {"status": status, "processors": count}, status_code=200 if count else 503
        )

    @app.get("/metrics", tags=["status"], response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Prometheus metrics of this frontend."""
        return PlainTextResponse(services.registry.text(), media_type=CONTENT_TYPE_LATEST)


def _add_model_routes(app: FastAPI, services: Services) -> None:
    created = int(time.time())
    refusals: dict[int | str, dict[str, Any]] = {
        401: {"description": "no or unknown API key"},
        403: {"description": "key is off"},
    }

    def entry(name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": created, "owned_by": "auricle"}

    @app.get("/v1/models", tags=["models"], responses=refusals)
    async def models(request: Request) -> dict[str, object]:
        """The served model and its aliases."""
        services.access.client(request.headers)
        return {"object": "list", "data": [entry(name) for name in services.models]}

    not_found: dict[int | str, dict[str, Any]] = {404: {"description": "no such model"}}

    @app.get("/v1/models/{model}", tags=["models"], responses={**refusals, **not_found})
    async def model(model: str, request: Request) -> dict[str, object]:
        """One model."""
        services.access.client(request.headers)
        if model not in services.models:
            raise UnknownModel(model, services.models)
        return entry(model)


class _Handled(Response):
    """A response that is an ASGI application: it reads the body and answers by itself."""

    def __init__(self, handler: ASGIApp) -> None:
        super().__init__()
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the body all errors have."""
    if not isinstance(error, HTTPException):
        raise error
    body = {
        "message": f"{error.detail}: {request.method} {request.url.path}; see /docs",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    return JSONResponse({"error": body}, status_code=error.status_code, headers=error.headers)


async def _our_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, AuricleError):
        raise error
    return error_response(error)
