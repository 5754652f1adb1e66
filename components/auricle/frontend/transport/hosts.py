"""ASGI middleware: the names by which clients may reach this server, and pages that may call it.

A web page may call the host that it was loaded from. Its author can let that host's name lead to
this server (DNS rebinding), and the browser then believes that the page belongs to it. Only the
`Host` header has the page's name. It matters where the address alone gives access: on a server
without API keys.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from auricle.core.errors import AuricleError, BadRequest, Forbidden, UnknownHost
from auricle.core.sanitize import quoted
from auricle.frontend.transport.addresses import address_of
from auricle.frontend.transport.request_errors import error_response
from auricle.frontend.transport.session_log import log_refused

ANY = "*"


async def refuse(scope: Scope, receive: Receive, send: Send, error: AuricleError) -> None:
    """Log a refused request or WebSocket handshake, and answer it with the error's response."""
    log_refused(address_of(scope.get("client")), error)
    response = error_response(error)
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)


def allowed_hosts(names: Collection[str], listening_at: str, *, keys: bool) -> tuple[str, ...]:
    """Return the names that clients may use, as `AllowedHosts` takes them.

    By default these are the ones that every server has, if it needs no keys and listens at a
    loopback address; otherwise all.
    """
    if names:
        return tuple(names)
    return () if not keys and _is_loopback(listening_at) else (ANY,)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AllowedHosts:
    """Refuses requests and WebSocket handshakes for another host with 421, and with two `Host`
    headers with 400.

    Every server has its addresses, `localhost` and names without a dot, which no page of another
    host can have, and `names`: `*.example.com` stands for the names below it, `*` for all. Requests
    without a `Host` are served, because browsers always send it.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._any = ANY in names
        self._names = {name.lower() for name in names if not name.startswith("*.")}
        self._below = tuple(name[1:].lower() for name in names if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            given = [value for name, value in scope["headers"] if name == b"host"]
            if (error := self._fault(given)) is not None:
                await refuse(scope, receive, send, error)
                return
        await self._app(scope, receive, send)

    def _fault(self, given: list[bytes]) -> AuricleError | None:
        if len(given) > 1:
            return BadRequest("a request has one Host header, not several")
        if not given or self._any:
            return None
        host = given[0].decode("latin-1")
        if self._may_be(host):
            return None
        return UnknownHost(
            f"this server is not {quoted(host)}: use its address; its operator lists further names "
            "in Frontend.allowed_hosts"
        )

    def _may_be(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:  # not a host
            return False
        if "." not in name and ":" not in name:
            return True
        if name in self._names or name.endswith((".localhost", *self._below)):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


# Which web pages may open WebSockets.
#
# Browsers ask no server before they open one, so for WebSockets CORS is checked here.

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
        if scope["type"] == "websocket" and not self._may_call(scope):
            error = Forbidden(
                "pages of this origin may not call; the server's operator lists those that may "
                "in Frontend.cors_origins"
            )
            await refuse(scope, receive, send, error)
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

    A proxy may have ended TLS, so the origin's scheme gives the default port of both.
    """
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host}")
        usual = _PORTS.get(page.scheme)
        ports = (page.port or usual, server.port or usual)
    except ValueError:  # not an address
        return False
    return bool(page.hostname) and page.hostname == server.hostname and ports[0] == ports[1]
