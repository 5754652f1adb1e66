"""The HTTP application: its routes and their handlers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, WebSocket
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auricle import __version__
from auricle.core.errors import (
    UNFORESEEN,
    AuricleError,
    UnknownModel,
    UnknownPath,
    UpgradeRequired,
)
from auricle.core.limits import MODEL, check
from auricle.core.sanitize import escaped
from auricle.frontend.capabilities import ServerCapabilities
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.addresses import address_of
from auricle.frontend.transport.admission import Readiness
from auricle.frontend.transport.grpc.incoming import Methods
from auricle.frontend.transport.hosts import ANY, AllowedHosts, SocketOrigins, refuse
from auricle.frontend.transport.request_errors import error_response
from auricle.frontend.transport.session_log import log_refused
from auricle.process.metrics import Registry
from auricle.protocol.diagnosis import Diagnosis

WebSocketSessions = Callable[[WebSocket], Awaitable[None]]


@dataclass(frozen=True)
class RecordingRoute:
    """A `POST` route for recordings; `openapi` extends its entry in the OpenAPI document."""

    name: str
    description: str
    handler: ASGIApp
    openapi: dict[str, Any]


@dataclass(frozen=True)
class Services:
    """The handlers of the routes.

    `websockets` and `recordings` are by path; `rpc_methods` are for the gRPC server, which has
    its own port. `readiness` returns whether sessions can be served.
    `diagnose` makes a diagnosis, or raises RateLimited. `more_routes` adds routes to the
    application, and `run_jobs`, if there are jobs, runs until the server drains. `hosts` are the
    names by which clients may reach the server, see `AllowedHosts`.
    """

    models: tuple[str, ...]
    abilities: ServerCapabilities
    access: Access
    websockets: Mapping[str, WebSocketSessions]
    recordings: Mapping[str, RecordingRoute]
    registry: Registry
    readiness: Callable[[], Awaitable[Readiness]]
    rpc_methods: Methods
    diagnose: Callable[[], Awaitable[Diagnosis]]
    more_routes: Callable[[FastAPI], object]
    run_jobs: Callable[[], Coroutine[Any, Any, None]] | None = None
    metrics_need_key: bool = False
    hosts: tuple[str, ...] = (ANY,)


def create_app(services: Services, cors_origins: tuple[str, ...] = ()) -> FastAPI:
    """Return the application with all routes.

    Handlers that need an API key check it themselves; health needs none, and metrics only with
    `metrics_need_key`. Pages of the web origins `cors_origins` may call.
    """
    # A redirect to the path without a slash at its end would lose the body of a request.
    app = FastAPI(
        title="auricle",
        version=__version__,
        docs_url=None,  # a page of ours: FastAPI's loads its scripts from another server
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(UsualRequests)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=cors_origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(SocketOrigins, allowed=cors_origins)
    app.add_middleware(AllowedHosts, names=services.hosts)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(AuricleError, _auricle_error)
    app.add_exception_handler(Exception, _unexpected_error)
    _add_status_routes(app, services)
    _add_model_routes(app, services)
    _add_diagnosis_route(app, services)
    for path, route in services.recordings.items():
        _add_recording_route(app, path, route)
    services.more_routes(app)
    for path, serve in services.websockets.items():
        _add_websocket_route(app, path, serve)
    _add_missing_websockets(app, tuple(services.websockets))
    return app


def _add_recording_route(app: FastAPI, path: str, route: RecordingRoute) -> None:
    async def recording() -> Response:
        return _Handled(route.handler)

    app.add_api_route(
        path,
        recording,
        methods=["POST"],
        name=route.name,
        description=route.description,
        openapi_extra=route.openapi,
        tags=["audio"],
    )


def _add_websocket_route(app: FastAPI, path: str, serve: WebSocketSessions) -> None:
    @app.websocket(path)
    async def connection(socket: WebSocket) -> None:
        await serve(socket)

    @app.get(path, include_in_schema=False)
    async def not_upgraded() -> None:
        raise UpgradeRequired(
            f"{path} is a WebSocket: a GET needs the headers Upgrade: websocket and "
            "Connection: Upgrade, which every proxy on the way must pass on"
        )


def _add_missing_websockets(app: FastAPI, known: Sequence[str]) -> None:
    @app.websocket("/{path:path}")
    async def missing(socket: WebSocket, path: str) -> None:
        error = UnknownPath(f"/{path}", known)
        await refuse(socket.scope, socket.receive, socket.send, error)


def _add_status_routes(app: FastAPI, services: Services) -> None:
    @app.get("/live", tags=["status"])
    async def live() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "live"}

    @app.get("/health", tags=["status"], responses={503: {"description": "not ready"}})
    async def health() -> JSONResponse:
        """Whether clients should be sent here, and the pools that have no worker."""
        found = await services.readiness()
        body = {
            "status": found.status,
            "processors": found.processors,
            "missing": found.missing,
        }
        return JSONResponse(body, status_code=200 if found.ready else 503)

    @app.get("/metrics", tags=["status"], response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Prometheus metrics of this frontend."""
        if services.metrics_need_key:
            services.access.client(request.headers, "operations")
        return PlainTextResponse(services.registry.text(), media_type=CONTENT_TYPE_LATEST)


def _add_model_routes(app: FastAPI, services: Services) -> None:
    created = int(time.time())
    refusals: dict[int | str, dict[str, Any]] = {
        401: {"description": "no or unknown API key"},
        403: {"description": "key is off"},
    }

    def entry(name: str) -> dict[str, object]:
        fields = {"id": name, "object": "model", "created": created, "owned_by": "auricle"}
        return fields | {"capabilities": msgspec.to_builtins(services.abilities)}

    @app.get("/v1/models", tags=["models"], responses=refusals)
    async def models(request: Request) -> dict[str, object]:
        """The served model and its aliases, and the annotations that a session can request."""
        services.access.client(request.headers)
        return {"object": "list", "data": [entry(name) for name in services.models]}

    not_found: dict[int | str, dict[str, Any]] = {404: {"description": "no such model"}}

    @app.get("/v1/models/{model:path}", tags=["models"], responses={**refusals, **not_found})
    async def model(model: str, request: Request) -> dict[str, object]:
        """One model."""
        services.access.client(request.headers)
        check("model", model, MODEL)
        if model not in services.models:
            raise UnknownModel(model, services.models)
        return entry(model)


def _add_diagnosis_route(app: FastAPI, services: Services) -> None:
    refusals: dict[int | str, dict[str, Any]] = {
        401: {"description": "no or unknown API key"},
        403: {"description": "the key is off, or not for operations"},
        429: {"description": "another diagnosis is being made, or was made just now"},
    }

    @app.get("/v1/diagnosis", tags=["status"], responses=refusals)
    async def diagnosis(request: Request) -> Response:
        """Descriptions of all processes, and probes of the workers; takes up to a minute."""
        services.access.client(request.headers, "operations")
        found = await services.diagnose()
        return Response(msgspec.json.encode(found), media_type="application/json")


class UsualRequests:
    """ASGI middleware: takes requests as clients of other servers send them.

    `HEAD` is served wherever `GET` is. A slash at the end of a path is ignored.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith("/"):
            scope = {**scope, "path": path.rstrip("/") or "/"}
        if scope.get("method") == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    """Return a `send` that ends the answer behind its headers, a stream's too."""
    ended = False

    async def heads(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.body" and not ended:
            ended = True
            await send({**message, "body": b"", "more_body": False})
        elif message["type"] != "http.response.body":
            await send(message)

    return heads


class _Handled(Response):
    """A response that is an ASGI application: it reads the body and sends the answer itself."""

    def __init__(self, handler: ASGIApp) -> None:
        super().__init__()
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return the router's 404 and 405 with the body that all errors have."""
    if not isinstance(error, HTTPException):
        raise error
    what = HTTPStatus(error.status_code).phrase
    body = {
        "message": f"{what}: {escaped(request.method)} {escaped(request.url.path)}; see /docs",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    return JSONResponse({"error": body}, status_code=error.status_code, headers=error.headers)


async def _auricle_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, AuricleError):
        raise error
    log_refused(address_of(request.client), error)
    return error_response(error)


async def _unexpected_error(_request: Request, _error: Exception) -> Response:
    """Answer with the body that all errors have; the HTTP server logs the exception."""
    return error_response(AuricleError(UNFORESEEN))
