"""The frontend's HTTP server: uvicorn with our protocols and a deadline of TLS handshakes."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from auricle.frontend.doors.http_protocol import DoorConfig, HttpProtocol
from auricle.process.http_server import EmbeddedServer


class DoorServer(EmbeddedServer):
    """Serves the sockets it is given. uvicorn would wait a minute for a TLS handshake."""

    config: DoorConfig

    def __init__(self, config: DoorConfig) -> None:
        super().__init__(config)

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
