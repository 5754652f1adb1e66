"""The frontend's live audio path, from bytes of a socket to pushes, against a fake processor.

Everything between is the real code: uvicorn's protocol, the sessions of both protocols, ingest,
the line. The socket's client reads everything that the server sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import uvloop
from prometheus_client import CollectorRegistry
from starlette.websockets import WebSocket
from uvicorn.server import ServerState

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError
from auricle.dynamo import Tokens
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle.frontend.exporters.transcripts import NoBus
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.realtime.socket import RealtimeProtocol
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens
from auricle.frontend.protocols.stream.session import StreamProtocol
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.connections import ConnectionLimits, Connections
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.http_protocol import ServerConfig
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.slots import SessionSlot, SessionSlots
from auricle.frontend.transport.websocket_protocol import WebSocketProtocol
from auricle.frontend.transport.websockets import ClientSocket
from auricle_testing import wire
from auricle_testing.fakes import InstantDetector, Processor, SteadyPulses, admission
from benchmarks.live.inputs import LAST, STREAM

_LAST = LAST.encode()
_LEAVING = wire.frame(wire.CLOSE, (1000).to_bytes(2, "big"))
_READ_BYTES = 1 << 18  # what uvloop and asyncio read at a time
_SECONDS = 60.0


class _Anyone:
    """A client without limits."""

    key = ANYONE
    tenant = key.name

    async def charge(self, seconds: float) -> None:
        """Charge nothing."""


class _Transport(asyncio.Transport):
    """The server's side of a socket whose client has sent `data` already and reads at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, data: bytes) -> None:
        super().__init__()
        self._loop = loop
        self._data = memoryview(data)
        self._at = 0
        self._paused = self._closing = self._scheduled = False
        self.protocol: WebSocketProtocol
        self.written_bytes = 0

    def start(self, request: bytes) -> None:
        """Let the protocol receive the handshake's request, then the data."""
        self.protocol.connection_made(self)
        self.protocol.data_received(request)
        self._schedule()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a local address, and the default for everything else."""
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None:
        """Deliver nothing."""
        self._paused = True

    def resume_reading(self) -> None:
        """Deliver again."""
        self._paused = False
        self._schedule()

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count the bytes; at the answer to the last event, close from the client's side."""
        self.written_bytes += len(data)
        if _LAST in bytes(data) and not self._closing:
            self._loop.call_soon(self.protocol.data_received, _LEAVING)

    def close(self) -> None:
        """Close."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    def _schedule(self) -> None:
        if not self._scheduled and self._at < len(self._data):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._paused or self._closing:
            return
        data = bytes(self._data[self._at : self._at + _READ_BYTES])
        self._at += len(data)
        self.protocol.data_received(data)
        self._schedule()


@dataclass(frozen=True)
class Outcome:
    """How a connection ended: `error` is None, or an error's text; `written_bytes` were sent."""

    error: str | None
    written_bytes: int


def serve(path: str, data: bytes, detector: VoiceDetector | None = None) -> Outcome:
    """Serve one client that connects to `path` and sends `data`, in an event loop of its own.

    It is uvloop's, as in the frontend: its own work is not Python, and is not counted.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serving(path, data, detector or InstantDetector()))


async def serving(path: str, data: bytes, detector: VoiceDetector) -> Outcome:
    """Serve one client on this event loop. Raises TimeoutError if that takes ten minutes."""
    processor = Processor()
    settings = FrontendSettings.model_validate({})
    frontend = Frontend(
        settings,
        ("model",),
        ProcessorEndpoints(*[cast(Any, processor)] * 5, cast(Any, SteadyPulses())),
        admission(),
        detector,
        NoBus(),
        FrontendMetrics(CollectorRegistry(), settings),
    )
    tokens = ResumeTokens(Tokens(None, PURPOSE), settings.resume_seconds, "model")
    protocol: Any = (
        StreamProtocol(frontend, tokens) if path == STREAM else RealtimeProtocol(frontend)
    )
    ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        slot = SessionSlots(1).take("client")
        client = ClientSocket(
            socket, cast(Any, _Anyone()), 20.0, Record(path), cast(SessionSlot, slot)
        )
        error: str | None = None
        try:
            await protocol.serve(client)
        except ClientDisconnected:
            pass
        except AuricleError as raised:
            error = str(raised)
        await client.close(1000)
        ended.set_result(error)

    async def owned(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        try:
            await app(scope, receive, send)
        except Exception as failure:
            ended.set_exception(failure)

    config = ServerConfig(
        owned,
        connections=Connections(ConnectionLimits()),
        ws=WebSocketProtocol,
        lifespan="off",
        log_config=None,
        ws_max_size=1 << 20,
    )
    config.load()
    transport = _Transport(asyncio.get_running_loop(), data)
    transport.protocol = WebSocketProtocol(config, ServerState(), {})
    transport.start(wire.handshake(path))
    async with asyncio.timeout(_SECONDS):
        error = await ended
    transport.close()
    await asyncio.sleep(0)
    return Outcome(error, transport.written_bytes)
