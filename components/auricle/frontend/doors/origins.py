"""ASGI middleware: which web pages may open WebSockets.

Browsers ask no server before they open one, so for WebSockets CORS is checked here.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from auricle.errors import Forbidden
from auricle.frontend.doors.addresses import address_of
from auricle.frontend.doors.http_errors import error_response
from auricle.frontend.doors.session_log import log_refused

_PORTS = {"http": 80, "https": 443}


class SocketOrigins:
    """Refuses WebSocket handshakes of pages whose origin may not call, with 403.

    Those of this server's own host may, and those that `allowed` lists; `*` allows all. Programs
    other than browsers send no origin and are not concerned.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, or refuse it."""
        if scope["type"] == "websocket" and not self._may_call(scope):
            error = Forbidden(
                "pages of this origin may not call; the server's operator lists those that may "
                "in Frontend.cors_origins"
            )
            log_refused(address_of(scope.get("client")), error)
            await WebSocket(scope, receive, send).send_denial_response(error_response(error))
            return
        await self._app(scope, receive, send)

    def _may_call(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None or origin in self._allowed or "*" in self._allowed:
            return True
        return _is_of(origin, headers.get("host", ""))


def _is_of(origin: str, host: str) -> bool:
    """Whether an origin is of the host that a request names in its header.

    A proxy may have ended TLS, so the port that goes without saying is that of the origin.
    """
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host}")
        usual = _PORTS.get(page.scheme)
        ports = (page.port or usual, server.port or usual)
    except ValueError:  # not an address
        return False
    return bool(page.hostname) and page.hostname == server.hostname and ports[0] == ports[1]
