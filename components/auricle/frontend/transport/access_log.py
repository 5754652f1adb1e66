"""ASGI middleware: one line in the log for each request and WebSocket, once it has ended.

Queries and headers are not in it, as clients of some services send their keys there; what looks
like a key is left out of paths.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auricle.core.sanitize import escaped

log = logging.getLogger(__name__)
_ID_HEADER = "x-request-id"
_ID_CHARACTERS = 64
_ID = re.compile(rf"[\w.-]{{1,{_ID_CHARACTERS}}}", re.ASCII)
_PATH_CHARACTERS = 200
_FAILED = 500
# What servers answer to a WebSocket that is closed before it is accepted.
_CLOSED = 403


@dataclass
class _Request:
    """Facts that follow after a request begins; `status` stays None without an answer."""

    name: str
    status: int | None = None
    tenant: str | None = None


_CURRENT: ContextVar[_Request | None] = ContextVar("auricle_request", default=None)


def identified(tenant: str) -> None:
    """The request that is served in this context is one of `tenant`."""
    if (request := _CURRENT.get()) is not None:
        request.tenant = tenant


def logged(app: ASGIApp, *, wanted: bool) -> ASGIApp:
    """Return an application that logs its requests; `app` itself if that is not wanted."""
    return AccessLog(app) if wanted else app


class AccessLog:
    """Logs method, path, status, milliseconds, tenant and id; answers carry the id, too.

    A client that sends an id of up to 64 letters, digits and `_.-` in `X-Request-Id` finds its own.
    The status of a WebSocket that was accepted is 101, its time until it is closed.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, and log its end."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request, began = _Request(_name(scope)), self._clock()

        async def noting(message: Message) -> None:
            _note(request, message)
            await send(message)

        token = _CURRENT.set(request)
        try:
            await self._app(scope, receive, noting)
        except Exception:
            request.status = request.status or _FAILED
            raise
        finally:
            _CURRENT.reset(token)
            _log(scope, request, self._clock() - began)


def _name(scope: Scope) -> str:
    given = Headers(scope=scope).get(_ID_HEADER, "")
    return given if _ID.fullmatch(given) else uuid.uuid4().hex


def _note(request: _Request, message: Message) -> None:
    kind = message["type"]
    if kind in ("http.response.start", "websocket.http.response.start"):
        request.status = message["status"]
        MutableHeaders(scope=message).append(_ID_HEADER, request.name)
    elif kind == "websocket.accept":
        request.status = 101
    elif kind == "websocket.close" and request.status is None:
        request.status = _CLOSED


def _log(scope: Scope, request: _Request, seconds: float) -> None:
    shown = {
        "method": scope.get("method", "GET"),  # a WebSocket's handshake is one
        "path": escaped(scope["path"], _PATH_CHARACTERS),
        "status": request.status,
        "milliseconds": round(1000 * seconds, 1),
        "tenant": request.tenant,
        "request": escaped(request.name, _ID_CHARACTERS),
    }
    # `sums_up`: the rate limit of repeated lines does not apply.
    log.info(
        "%s %s %s %s ms tenant=%s request=%s",
        *("-" if value is None else value for value in shown.values()),
        extra={**shown, "sums_up": True},
    )
