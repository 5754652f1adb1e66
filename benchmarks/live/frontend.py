"""The frontend's way of live audio, from bytes of a socket to pushes, against a made-up processor.

Everything between is the real code: uvicorn's protocol, the sessions of both protocols, ingest,
the line. The socket's client reads all that it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import uvloop
from prometheus_client import CollectorRegistry
from starlette.websockets import WebSocket
from uvicorn.server import ServerState

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.voice_activity import Floats, VoiceState
from auricle.errors import AuricleError
from auricle.frontend.doors.access.keys import ANYONE
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.connections import ConnectionLimits, Connections
from auricle.frontend.doors.http_protocol import DoorConfig
from auricle.frontend.doors.seats import Seat, Seats
from auricle.frontend.doors.socket_protocol import WebSocketProtocol
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.line.processors import ProcessorEndpoints
from auricle.frontend.listening.voice import VoiceDetector
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.observers.transcript_bus import NoBus
from auricle.frontend.realtime.socket import RealtimeProtocol
from auricle.frontend.stream.resume_token import PURPOSE, ResumeTokens
from auricle.frontend.stream.session import StreamProtocol
from auricle.messages.sessions import (
    Accepted,
    Done,
    EndAudio,
    Final,
    OpenSession,
    Partial,
    PushAudio,
    ResumePoint,
    SessionEvent,
    SessionReady,
)
from auricle.messages.stream import Usage
from auricle.runtime import Tokens
from auricle.settings import FrontendSettings
from benchmarks.live import wire
from benchmarks.live.inputs import LAST, STREAM

_LAST = LAST.encode()
_LEAVING = wire.frame(wire.CLOSE, (1000).to_bytes(2, "big"))
_READ_BYTES = 1 << 18  # what uvloop and asyncio read at a time
_LONGEST_SEGMENT = 30 * SAMPLE_RATE
_LOUD = 0.01
_SECONDS = 60.0


class LoudnessModel:
    """In place of the model of voice activity: what is loud is speech."""

    def probabilities(self, streams: Sequence[tuple[VoiceState, Floats]]) -> list[Floats]:
        """As `VoiceActivityModel.probabilities`."""
        return [_loudness(frames) for _, frames in streams]


class InstantDetector(VoiceDetector):
    """Finds speech at once, so that the number of operations does not depend on the clock."""

    async def detect(self, state: VoiceState, frames: Floats) -> list[float]:
        """As `VoiceDetector.detect`."""
        values: list[float] = _loudness(frames).tolist()
        return values


def _loudness(frames: Floats) -> Floats:
    loud = np.abs(frames).max(axis=1, initial=0.0) > _LOUD
    return np.where(loud, 0.95, 0.02).astype(np.float32)


class _Owned:
    """One session of the processor: it has text for whatever arrives, at once."""

    def __init__(self, opened: OpenSession) -> None:
        self.events: asyncio.Queue[SessionEvent] = asyncio.Queue()
        self._grid = opened.chunk_ms * SAMPLE_RATE // 1000
        self._segment, self._start = opened.resume.segment, opened.resume.segment_start
        self._received = self._start
        self.events.put_nowait(SessionReady(opened.session, self._grid))

    def push(self, message: PushAudio) -> Accepted:
        end = message.start_sample + len(message.pcm) // 2
        end = end if message.features is None else message.features.end
        points = (end - self._start) // self._grid - (self._received - self._start) // self._grid
        self._received = max(self._received, end)
        if message.boundary == "endpoint" or end - self._start >= _LONGEST_SEGMENT:
            ended, self._segment, self._start = self._segment, self._segment + 1, end
            self.events.put_nowait(Final(ended, "word", 0, 1, "English", self._resume))
        elif points > 0:
            heard_ms = end * 1000 // SAMPLE_RATE
            text = Partial(self._segment, "a", " b", heard_ms, "English", self._resume)
            self.events.put_nowait(text)
        offset = self._received - self._start
        return Accepted(self._received, self._grid - offset % self._grid)

    def end(self) -> Accepted:
        if self._received > self._start:
            self.events.put_nowait(Final(self._segment, "word", 0, 1, "English", self._resume))
        self.events.put_nowait(Done(Usage()))
        return Accepted(self._received)

    @property
    def _resume(self) -> ResumePoint:
        return ResumePoint(self._segment, self._start)


class Processor:
    """In place of all endpoints of a processor that is never busy."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Owned] = {}

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        """Return the one instance."""
        return [1]

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events."""
        session = self._sessions[message.session] = _Owned(message)
        while True:
            event = await session.events.get()
            yield event
            if isinstance(event, Done):
                return

    async def call(
        self, message: PushAudio | EndAudio, reply: object, instance: int, seconds: float
    ) -> Accepted:
        """Take a push or the end."""
        await asyncio.sleep(0)
        session = self._sessions[message.session]
        return session.end() if isinstance(message, EndAudio) else session.push(message)


class _Steady:
    """In place of the pulses of a processor that never hangs."""

    async def during(self, instance: int, work: Awaitable[Any], stop: object = None) -> Any:
        """Return the result of `work`."""
        return await work


class _OpenDoor:
    """In place of a front door through which nobody leaves."""

    leaving = last_call = False


class _Anyone:
    """In place of a client with limits."""

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
        """Return nothing that anybody asks for."""
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
        """Count; at the answer to the last event, leave."""
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
        ProcessorEndpoints(*[cast(Any, processor)] * 5, cast(Any, _Steady())),
        cast(Any, _OpenDoor()),
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
        seat = Seats(1).take("client")
        client = ClientSocket(socket, cast(Any, _Anyone()), 20.0, "sess_1", cast(Seat, seat))
        error: str | None = None
        try:
            await protocol.serve(client)
        except ClientGone:
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

    config = DoorConfig(
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
