"""The frontend's HTTP server: uvicorn with our protocols, limits and handshakes' deadline."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from auricle.config.settings import FrontendSettings
from auricle.core.errors import RateLimited
from auricle.frontend.transport.access_log import logged
from auricle.frontend.transport.addresses import networks_of
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.grpc import TRANSPORT as GRPC
from auricle.frontend.transport.hosts import refuse
from auricle.frontend.transport.http_protocol import TRANSPORT as HTTP
from auricle.frontend.transport.http_protocol import HttpProtocol, ServerConfig
from auricle.frontend.transport.slots import NetworkRates
from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from auricle.process.http_server import EmbeddedServer
from auricle.process.resources import connections_within_limit

log = logging.getLogger(__name__)


def connections_of(
    settings: FrontendSettings, ended: Callable[[str], None] = lambda _reason: None
) -> Connections:
    """Return the connections of all transports; as many as the limit of open files allows."""
    has_grpc = settings.grpc_port is not None
    most = connections_within_limit(settings.max_connections, grpc=has_grpc)
    if most < settings.max_connections:
        log.warning(
            "the limit of open files (ulimit -n) allows %d connections, not "
            "Frontend.max_connections (%d): raise the limit",
            *(most, settings.max_connections),
        )
    grpc = (GRPC,) if has_grpc else ()
    limits = ConnectionLimits(
        most=most,
        per_address=settings.max_connections_per_address,
        per_second=settings.max_handshakes_per_address,
        transports=(HTTP, *grpc, *settings.keyless_ports),
        unadmitted_bytes=settings.max_unadmitted_bytes,
        head_seconds=settings.header_timeout_seconds,
        keep_alive_seconds=settings.keep_alive_seconds,
        reader_seconds=settings.slow_reader_seconds,
        trusted_proxies=settings.trusted_proxies,
    )
    return Connections(limits, ended=ended)


def server_config(
    settings: FrontendSettings, app: ASGIApp, connections: Connections
) -> ServerConfig:
    return ServerConfig(
        logged(app, wanted=settings.access_log),
        connections=connections,
        log_config=None,  # uvicorn logs to this process's handlers
        log_level="warning",
        ws=WebSocketProtocol,
        ws_max_size=settings.max_frame_bytes,
        # Under backpressure the client's pong is not read, because unread audio comes before
        # it. A vanished client is detected by the idle time-out instead.
        ws_ping_timeout=None,
        timeout_keep_alive=math.ceil(settings.keep_alive_seconds),
        timeout_graceful_shutdown=5,
        # Otherwise anybody on this machine could say who they are.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
        lifespan="off",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )


class FrontendServer(EmbeddedServer):
    """Serves the sockets it is given. uvicorn would wait a minute for a TLS handshake."""

    config: ServerConfig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections from `sockets`."""
        loop = asyncio.get_running_loop()
        config = self.config
        new_protocol = partial(
            HttpProtocol,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        handshake = config.connections.limits.head_seconds if config.ssl else None
        self.servers = [
            await loop.create_server(
                new_protocol,
                sock=sock,
                ssl=config.ssl,
                ssl_handshake_timeout=handshake,
                backlog=config.backlog,
            )
            for sock in sockets or ()
        ]
        self.started = True
        self.accepting.set()


# ASGI middleware: how often one address may ask for something.

# Probes of the process's own machine must be answered, whoever shares its address.
_ALWAYS = ("/live", "/health")


class HandshakeLimit:
    """Refuses requests and WebSocket handshakes of an address that sends too many, with 429."""

    def __init__(self, app: ASGIApp, rates: NetworkRates) -> None:
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in _ALWAYS:
            try:
                self._rates.spend(networks_of(scope.get("client")))
            except RateLimited as error:
                await refuse(scope, receive, send, error)
                return
        await self._app(scope, receive, send)
