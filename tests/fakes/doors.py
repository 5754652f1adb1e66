"""The frontend's real HTTP server in this process, around an application of the test's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop
from starlette.types import ASGIApp

from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.http_protocol import ServerConfig
from auricle.frontend.transport.server import FrontendServer
from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from tests.fakes.clock import Clock


class PromptServer(FrontendServer):
    """Stops at once: uvicorn polls every 0.1 s, and tests have hundreds of servers."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        """Wait; the Date header keeps the time of the start."""
        await self.on_tick(0)
        await self._told.wait()


@dataclass
class Door:
    """A server at `port`. Its deadlines follow `clock`."""

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    clock: Clock = field(default_factory=Clock)
    port: int = 0

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits, self.clock)

    def after(self, seconds: float) -> None:
        """Advance the clock by `seconds`, and let the server check its connections."""
        self.clock.now += seconds
        self.connections.check_deadlines()

    @asynccontextmanager
    async def serving(self, app: ASGIApp, **options: Any) -> AsyncIterator[None]:
        usual: dict[str, Any] = {
            "ws": WebSocketProtocol,
            # Tests read frames as they arrive, and may last longer than the 20 s to the first ping.
            "ws_ping_interval": None,
            "ws_ping_timeout": None,
            "proxy_headers": False,
            "timeout_graceful_shutdown": 2,
        }
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
            config = ServerConfig(
                app,
                connections=self.connections,
                log_config=None,
                lifespan="off",
                **usual | options,
            )
            server = PromptServer(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            async with asyncio.timeout(120):
                await server.accepting.wait()
                try:
                    yield
                finally:
                    server.stop()
                    await serving

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> bytes:
        """Everything that the server answers to `data` until it closes the connection."""
        reader, writer = await self.connect()
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer


@pytest.fixture(scope="module")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """The frontend runs on uvloop. A module that imports this has its tests run there too."""
    return uvloop.EventLoopPolicy()
