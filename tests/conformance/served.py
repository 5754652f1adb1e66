"""The frontend in this process, on real ports, with a fake processor that can fail."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from auricle.core.aio import run_until
from auricle.dynamo import Tokens
from auricle.frontend.main import build_services
from auricle.frontend.protocols.audiosocket import audiosocket_protocol
from auricle.frontend.protocols.stream.resume import PURPOSE
from auricle.frontend.protocols.wyoming import wyoming_protocol
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing
from auricle.frontend.transport.app import create_app
from auricle.frontend.transport.grpc.server import RpcServer
from auricle.frontend.transport.server import connections_of, server_config
from auricle.frontend.transport.slots import NetworkRates
from auricle.frontend.transport.tcp import TcpServer
from auricle.process.metrics import Registry
from auricle.protocol.annotation import SegmentTranslation
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    Failed,
    OpenSession,
    PushAudio,
    SegmentFinal,
    SegmentPartial,
    SessionEvent,
)
from auricle_testing.fakes import Processor
from tests.fakes.clock import Ahead
from tests.fakes.doors import PromptServer
from tests.fakes.tcp_port import frontend
from tests.fakes.transcript_bus import KeptBus

TENANT = "acme"
TCP = {
    "audiosocket": audiosocket_protocol,
    "wyoming": lambda front, access: wyoming_protocol(front, access, ("English",)),
}


class FallibleProcessor(Processor):
    """Has text for any loud audio, and translates it; fails every session after `fail`."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0  # sessions
        self._failure: Exception | Failed | None = None
        self._failing = asyncio.Event()

    def fail(self, failure: Exception | Failed) -> None:
        """Fail all sessions, including the open ones, with an exception or as failed."""
        self._failure = failure
        self._failing.set()

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        self.opened += 1
        async with aclosing(super().stream(message, reply, instance)) as events:
            while (event := await run_until(self._failing, _next(events))) is not None:
                if message.translate and isinstance(event, SegmentPartial):
                    continue  # partials differ from finals and must not be committed
                yield event
                if message.translate and isinstance(event, SegmentFinal):
                    text = event.text.upper()
                    yield SegmentTranslation(event.segment, message.translate[0], text, final=True)
        if isinstance(self._failure, Failed):
            yield self._failure
        elif self._failure is not None:
            raise self._failure

    async def call(
        self, message: PushAudio | EndAudio, reply: object, instance: int, seconds: float
    ) -> Accepted:
        if isinstance(self._failure, Exception):
            raise self._failure
        return await super().call(message, reply, instance, seconds)


async def _next(events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
    return await anext(events, None)


class Served:
    """A frontend with these keys. Clients of protocols without keys belong to `TENANT`."""

    def __init__(self, keys: Sequence[ApiKey] | None = None, **settings: Any) -> None:
        if keys is not None:
            settings["keyless_tenant"] = TENANT
        self.bus = KeptBus()
        self.processor = FallibleProcessor()
        self.clock = Ahead()  # of admission
        self.frontend = frontend(self.bus, self.processor, self.clock, grpc_port=0, **settings)
        self.admission = self.frontend.admission
        self.access = Access(KeyRing(keys))
        self.port = 0
        unused = cast(Any, None)
        self._services = build_services(
            self.frontend,
            self.access,
            cast(Any, SimpleNamespace(outputs=unused)),
            Registry(),
            cast(Any, SimpleNamespace(diagnose=unused)),
            Tokens(None, PURPOSE),
        )
        self._rates = NetworkRates(0.0, "requests")

    def serving(self, transport: str) -> Any:
        """Serve at `port`: `websocket`, `grpc`, or the name of a protocol with a TCP port."""
        if transport == "websocket":
            return self._http()
        return self._grpc() if transport == "grpc" else self._tcp(transport)

    @property
    def counted(self) -> dict[str, float]:
        """The number of ended sessions by result, from the metric."""
        counter = self.frontend.metrics._ended
        samples = [s for m in counter.collect() for s in m.samples if s.name.endswith("_total")]
        return {s.labels["result"]: s.value for s in samples}

    @property
    def heard_seconds(self) -> float:
        """The seconds of audio, from the metric."""
        return float(self.frontend.metrics._received._value.get())

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[None]:
        settings = self.frontend.settings
        with socket.socket() as listener:
            self.port = _bound(listener)
            app = create_app(self._services, settings.cors_origins)
            connections = connections_of(settings)
            server = PromptServer(server_config(settings, app, connections))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await server.accepting.wait()
            try:
                yield
            finally:
                server.stop()
                await serving

    @asynccontextmanager
    async def _grpc(self) -> AsyncIterator[None]:
        settings = self.frontend.settings
        connections = connections_of(settings)
        server = RpcServer(settings, self._services, self.admission, connections, self._rates)
        await server.open()
        assert server.port is not None
        self.port = server.port
        try:
            yield
        finally:
            await server.close()

    @asynccontextmanager
    async def _tcp(self, name: str) -> AsyncIterator[None]:
        connections = connections_of(self.frontend.settings)
        protocol = TCP[name](self.frontend, self.access)
        sessions = self.frontend.live_sessions
        server = TcpServer(protocol, connections, self.admission, sessions)
        listener = socket.socket()
        self.port = _bound(listener)
        await server.start(listener)
        try:
            yield
        finally:
            await server.close()


def _bound(listener: socket.socket) -> int:
    listener.bind(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    return port


async def soon(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # no event to wait for
            await asyncio.sleep(0.002)
