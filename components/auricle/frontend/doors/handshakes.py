"""ASGI middleware: how often one address may ask for something."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from auricle.errors import RateLimited
from auricle.frontend.doors.addresses import address_of, host_of
from auricle.frontend.doors.http_errors import error_response
from auricle.frontend.doors.seats import Rates
from auricle.frontend.doors.session_log import log_refused

# Probes of the process's own machine must be answered, whoever shares its address.
_ALWAYS = ("/live", "/health")


class HandshakeLimit:
    """Refuses requests and WebSocket handshakes of an address that sends too many, with 429."""

    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, or refuse it."""
        if scope["type"] in ("http", "websocket") and scope["path"] not in _ALWAYS:
            try:
                self._rates.spend(host_of(scope.get("client")))
            except RateLimited as error:
                log_refused(address_of(scope.get("client")), error)
                response = error_response(error)
                if scope["type"] == "websocket":
                    await WebSocket(scope, receive, send).send_denial_response(response)
                else:
                    await response(scope, receive, send)
                return
        await self._app(scope, receive, send)
