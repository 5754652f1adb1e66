"""The frontend's HTTP server without processes behind it: helpers for tests of its routes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import websockets
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.dynamo import Tokens
from auricle.frontend.exporters.transcripts import NoBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.main import build_services, served_names
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.stream.resume import PURPOSE
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing
from auricle.frontend.transport.access_log import logged
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.app import create_app
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.http_protocol import ServerConfig
from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from auricle.process.metrics import Registry
from tests.fakes.doors import PromptServer

Failure = Callable[[], Exception]


class Processors:
    """The endpoints of processors: they never answer, or fail with the test's error."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.refused_at: Failure | None = None
        self.admit = self.withdraw = self.open = self.push = self.end = self
        self.loads = SimpleNamespace(staying=list, chosen=lambda instances: instances[0])
        self.opened = asyncio.Semaphore(0)  # released by each session that is opened

    async def instances(self) -> list[int]:
        if self.refused_at is not None:
            raise self.refused_at()
        return []

    async def choose(self, seconds: float, avoid: frozenset[int]) -> int:
        self.opened.release()
        if self.failure is not None:
            raise self.failure()
        await asyncio.Event().wait()
        return 1


class Front:
    """A frontend with these keys, at `url` while `serving`."""

    def __init__(
        self,
        keys: Sequence[ApiKey] | None = None,
        connection_limits: ConnectionLimits | None = None,
        **settings: Any,
    ) -> None:
        self.processors = Processors()
        self.access = Access(KeyRing(keys))
        made = FrontendSettings(**settings)
        registry = CollectorRegistry()
        admission = SessionAdmission(cast(Any, self.processors), made.max_sessions)
        unused = cast(Any, None)
        self.frontend = Frontend(
            made,
            served_names(made),
            cast(Any, self.processors),
            admission,
            unused,
            NoBus(),
            FrontendMetrics(registry, made),
        )
        self.decoders = SimpleNamespace(outputs=unused)
        self.gatherer = SimpleNamespace(diagnose=unused)
        self.tokens = Tokens(None, PURPOSE)
        self.connections_ended: list[str] = []
        self.connections = Connections(
            connection_limits or ConnectionLimits(), ended=self.connections_ended.append
        )
        self.url = ""
        self.grpc_port = 0
        self.extend: Callable[[FastAPI], FastAPI] = lambda app: app  # with more routes

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        services = build_services(
            self.frontend,
            self.access,
            cast(Any, self.decoders),
            Registry(),
            cast(Any, self.gatherer),
            self.tokens,
        )
        settings = self.frontend.settings
        app = self.extend(create_app(services, settings.cors_origins))
        app = logged(app, wanted=settings.access_log)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            config = ServerConfig(
                app,
                connections=self.connections,
                log_config=None,
                log_level="warning",
                lifespan="off",
                ws=WebSocketProtocol,
            )
            server = PromptServer(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await server.accepting.wait()
            try:
                yield
            finally:
                server.stop()
                await serving

    def connect(self, path: str, secret: str | None = None, **options: Any) -> websockets.connect:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        address = self.url.replace("http", "ws") + path
        return websockets.connect(address, additional_headers=headers, **options)

    async def get(self, path: str, secret: str | None = None) -> httpx.Response:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            return await client.get(path, headers=headers)

    async def post(
        self, secret: str | None = None, path: str = "/v1/audio/transcriptions", **fields: str
    ) -> httpx.Response:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            return await client.post(
                path,
                data={"model": "demo", **fields},
                files={"file": ("x.wav", b"RIFF")},
                headers=headers,
            )


START = json.dumps({"type": "start", "sample_rate": 16_000, "endpointing": {"enabled": False}})


async def refused(connecting: websockets.connect) -> tuple[int, str]:
    """The status of a refused handshake, or the close code after one, and the text before it."""
    try:
        async with connecting as socket:
            said, code, _ = await last_words(socket)
            return code, said
    except websockets.InvalidStatus as error:
        return error.response.status_code, (error.response.body or b"").decode()


async def last_words(socket: websockets.ClientConnection) -> tuple[str, int, str]:
    """All text until the server closes, the close code and its reason."""
    said = ""
    try:
        while True:
            said += str(await socket.recv())
    except websockets.ConnectionClosed as closed:
        frame = closed.rcvd
        assert frame is not None
        return said, frame.code, frame.reason
