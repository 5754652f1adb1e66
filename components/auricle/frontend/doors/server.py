"""The frontend's HTTP server: uvicorn with our protocols, limits and handshakes' deadline."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from functools import partial

from starlette.types import ASGIApp

from auricle.frontend.doors.access_log import logged
from auricle.frontend.doors.connections import ConnectionLimits, Connections
from auricle.frontend.doors.http_protocol import DoorConfig, HttpProtocol
from auricle.frontend.doors.socket_protocol import WebSocketProtocol
from auricle.process.descriptors import connections_within_limit
from auricle.process.http_server import EmbeddedServer
from auricle.settings import FrontendSettings

log = logging.getLogger(__name__)


def connections_of(settings: FrontendSettings) -> Connections:
    """Return the connections of the HTTP server; as many as the limit of open files allows."""
    most = connections_within_limit(settings.max_connections)
    if most < settings.max_connections:
        log.warning(
            "the limit of open files (ulimit -n) allows %d connections, not "
            "Frontend.max_connections (%d): raise the limit",
            *(most, settings.max_connections),
        )
    limits = ConnectionLimits(
        most=most,
        per_address=settings.max_connections_per_address,
        head_seconds=settings.header_timeout_seconds,
        keep_alive_seconds=settings.keep_alive_seconds,
        reader_seconds=settings.slow_reader_seconds,
        trusted_proxies=settings.trusted_proxies,
    )
    return Connections(limits)


def server_config(settings: FrontendSettings, app: ASGIApp, connections: Connections) -> DoorConfig:
    """Return the HTTP server's configuration."""
    return DoorConfig(
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


class DoorServer(EmbeddedServer):
    """Serves the sockets it is given. uvicorn would wait a minute for a TLS handshake."""

    config: DoorConfig

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
