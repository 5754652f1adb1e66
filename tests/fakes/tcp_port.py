"""A TCP port of the frontend in this process, with a fake processor, and its client."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.frontend.exporters.transcripts import NoBus, TranscriptBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.tcp import TcpProtocol, TcpServer
from auricle_testing.fakes import InstantDetector, Processor, SteadyPulses

Speaks = Callable[[Frontend, Access], TcpProtocol]


class _Absent:
    """Admits every session without asking a processor."""

    async def instances(self) -> list[int]:
        return []


def frontend(
    bus: TranscriptBus | None = None,
    processor: Processor | None = None,
    clock: Callable[[], float] = time.monotonic,
    **settings: Any,
) -> Frontend:
    """A frontend with a processor, by default one that has text for any loud audio at once."""
    made, called = FrontendSettings(**settings), cast(Any, processor or Processor())
    endpoints = ProcessorEndpoints(*[called] * 5, cast(Any, SteadyPulses()))
    return Frontend(
        made,
        ("demo",),
        endpoints,
        SessionAdmission(
            cast(Any, SimpleNamespace(admit=_Absent(), loads=SimpleNamespace(staying=list))),
            made.max_sessions,
            clock,
        ),
        InstantDetector(),
        bus or NoBus(),
        FrontendMetrics(CollectorRegistry(), made),
    )


class Port:
    """Serves a protocol; `access` has its keys."""

    def __init__(
        self,
        speaks: Speaks,
        keys: Sequence[ApiKey] | None = None,
        limits: ConnectionLimits | None = None,
        bus: TranscriptBus | None = None,
        **settings: Any,
    ) -> None:
        self.frontend = frontend(bus, **settings)
        self.access = Access(KeyRing(keys))
        self.connections = Connections(limits or ConnectionLimits())
        protocol = speaks(self.frontend, self.access)
        door, sessions = self.frontend.admission, self.frontend.live_sessions
        self._server = TcpServer(protocol, self.connections, door, sessions)
        self.number = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.number = listener.getsockname()[1]
        await self._server.start(listener)
        try:
            yield
        finally:
            await self._server.close()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number)
        try:
            yield reader, writer
        finally:
            writer.close()

    def ended(self) -> dict[str, float]:
        """The number of ended sessions by result."""
        counter = self.frontend.metrics._ended
        samples = [s for m in counter.collect() for s in m.samples if s.name.endswith("_total")]
        return {s.labels["result"]: s.value for s in samples}
