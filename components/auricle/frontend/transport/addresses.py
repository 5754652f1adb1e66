"""A client's address, and the network that counts as one client."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from auricle.core.errors import Forbidden
from auricle.frontend.transport.request_errors import error_response
from auricle.frontend.transport.session_log import log_refused

UNKNOWN = "unknown"
_IPV6_PREFIXES = (64, 48)  # providers assign a /64 to a customer, a /48 to a site
Network = IPv4Network | IPv6Network
# The names of the networks that a client counts for, the narrowest first.
Networks = tuple[str, ...]


def address_of(client: tuple[str, int] | None) -> str:
    """Return the peer's address as `host:port`; `unknown` if there is none (a Unix socket)."""
    return f"{client[0]}:{client[1]}" if client else UNKNOWN


def networks_of(client: tuple[str, int] | None) -> Networks:
    """Return the networks that a client counts for: an IPv4 address, or the /64 and the /48 of an
    IPv6 one.

    `unknown` is everything that is neither, such as a header that a proxy let pass.
    """
    if client is None:
        return (UNKNOWN,)
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return (UNKNOWN,)
    if isinstance(address, ipaddress.IPv4Address):
        return (str(address),)
    if address.ipv4_mapped is not None:
        return (str(address.ipv4_mapped),)
    number = int(address)
    return tuple(str(IPv6Network((number, p), strict=False)) for p in _IPV6_PREFIXES)


def host_of(client: tuple[str, int] | None) -> str:
    """Return what counts as one client: an IPv4 address or the /64 network of an IPv6 one."""
    return networks_of(client)[0]


def within(client: tuple[str, int] | None, networks: Sequence[Network]) -> bool:
    if client is None:
        return False
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    return any(address in network for network in networks)


# ASGI middleware: which web pages may open WebSockets.
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

    A proxy may have ended TLS, so the origin's scheme gives the default port of both.
    """
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host}")
        usual = _PORTS.get(page.scheme)
        ports = (page.port or usual, server.port or usual)
    except ValueError:  # not an address
        return False
    return bool(page.hostname) and page.hostname == server.hostname and ports[0] == ports[1]
