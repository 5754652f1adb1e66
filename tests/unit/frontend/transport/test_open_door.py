"""One client cannot exclude others: real sockets, and a processor's real admission."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
import websockets
from fastapi import FastAPI, WebSocket
from prometheus_client import CollectorRegistry
from uvicorn.protocols.utils import ClientDisconnected

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, ProtocolError
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.access.limits import KeyLimits
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.live_sessions import LiveSessions
from auricle.frontend.transport.websockets import ClientSocket, SocketProtocol, SocketSessions
from auricle.load.chunk_load import ChunkLoad
from auricle.process.tracing import OFF
from auricle.processor.admission import FIRST, AdaptiveLimit, Admission
from auricle.protocol.sessions import AdmitSession, Admitted, WithdrawAdmission, Withdrawn
from tests.fakes.clock import Clock
from tests.fakes.doors import Door, event_loop_policy
from tests.waiting import until

pytestmark = pytest.mark.unit
__all__ = ["event_loop_policy"]
AT_ONCE = int(FIRST)


class Processor:
    """Admits sessions like a processor."""

    def __init__(self) -> None:
        self.admission = Admission(64, ChunkLoad(0.3), AdaptiveLimit(0.3))
        self.takes_back = asyncio.Event()
        self.takes_back.set()

    async def instances(self) -> list[int]:
        return [1]

    async def call(self, request: object, *_: object) -> object:
        if isinstance(request, AdmitSession):
            self.admission.admit(request.admission, request.client, resumes=request.resumes)
            return Admitted()
        assert isinstance(request, WithdrawAdmission)
        await self.takes_back.wait()
        self.admission.withdraw(request.admission)
        return Withdrawn()


class Sessions:
    """Sessions that send `ready` after `start`, and end at the next message."""

    def __init__(self, max_sessions: int = 64, keys: KeyRing | None = None, **limits: Any) -> None:
        self.registry = CollectorRegistry()
        self.processor = Processor()
        endpoint, unused = cast(Any, self.processor), cast(Any, None)
        endpoints = ProcessorEndpoints(endpoint, endpoint, *[unused] * 4)
        admission = SessionAdmission(endpoints, max_sessions)
        metrics = FrontendMetrics(self.registry, FrontendSettings())
        sessions = LiveSessions(admission, KeyLimits(**limits), metrics, OFF)
        access = Access(keys or KeyRing(None))
        self._sessions = SocketSessions(access, admission, sessions, 20.0)
        self._protocol = SocketProtocol("test", self._serve, self._error)
        self.app = FastAPI()
        self.door = Door()
        self.served: list[weakref.ref[ClientSocket]] = []

        @self.app.websocket("/")
        async def serve(websocket: WebSocket) -> None:
            await self._sessions.serve(websocket, self._protocol)

    async def _serve(self, socket: ClientSocket) -> None:
        self.served.append(weakref.ref(socket))
        text, _ = await socket.receive(10.0, "the start message")
        if text != "start":
            raise ProtocolError("the first message must be start")
        await socket.send("ready")
        # Like real sessions, in a task of its own; a failed task references its objects.
        await asyncio.create_task(socket.receive(60.0, "the next message"))

    @staticmethod
    def _error(error: AuricleError) -> str:
        return json.dumps({"code": error.code, "message": str(error)})

    async def leaves_at_its_handshake(self) -> None:
        """Serve a client that has disconnected when the server accepts its connection."""

        async def receive() -> dict[str, str]:
            return {"type": "websocket.connect"}

        async def send(_message: object) -> None:
            raise ClientDisconnected

        address = {"client": ("127.0.0.1", 1), "path": "/", "query_string": b"", "headers": []}
        scope = {"type": "websocket", "extensions": {"websocket.http.response": {}}, **address}
        await self._sessions.serve(WebSocket(scope, receive, send), self._protocol)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        proxies = {"proxy_headers": True, "forwarded_allow_ips": ["127.0.0.1"]}
        async with self.door.serving(self.app, ws_max_size=1024, **proxies):
            yield

    def connect(self, address: str, key: str = "none") -> websockets.connect:
        """Connect as a client at `address`."""
        headers = {"X-Forwarded-For": address, "Authorization": f"Bearer {key}"}
        return websockets.connect(f"ws://127.0.0.1:{self.door.port}/", additional_headers=headers)

    async def connected(self, address: str) -> bool:
        """Whether a client that sends `start` at once is admitted."""
        try:
            async with self.connect(address) as socket:
                await socket.send("start")
                return await socket.recv() == "ready"
        except websockets.InvalidStatus:
            return False

    def ended(self) -> Counter[str]:
        return Counter(
            {
                sample.labels["result"]: int(sample.value)
                for metric in self.registry.collect()
                for sample in metric.samples
                if sample.name == "auricle_frontend_sessions_ended_total"
            }
        )


async def test_a_client_that_leaves_at_its_handshake_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sessions = Sessions()
    await sessions.leaves_at_its_handshake()
    assert sessions.ended() == {"client_gone": 1}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_dozen_failed_starts_keep_nobody_out() -> None:
    sessions = Sessions()

    async def fail() -> None:
        async with sessions.connect("10.0.0.1") as socket:
            await socket.send("nonsense")
            assert json.loads(await socket.recv())["code"] == "protocol"

    async with sessions.serving():
        for _ in range(3):
            failing = [asyncio.create_task(fail()) for _ in range(12)]
            assert await sessions.connected("10.0.0.2")
            await asyncio.gather(*failing, return_exceptions=True)
            assert await sessions.connected("10.0.0.2")


async def test_nothing_of_a_session_is_kept_once_its_client_has_left() -> None:
    """This includes the deadline for its next message, which may be an hour away."""
    sessions = Sessions()
    async with sessions.serving():
        for _ in range(3):
            assert await sessions.connected("10.0.0.1")
        await until(lambda: sessions.ended()["client_gone"] == 3)
        gc.collect()
        assert [served() for served in sessions.served] == [None] * 3


async def test_the_place_of_a_client_that_left_is_free_whatever_its_processor_does() -> None:
    sessions = Sessions(max_sessions=1)
    sessions.processor.takes_back.clear()
    async with sessions.serving():
        for _ in range(2):
            async with sessions.connect("10.0.0.1") as socket:
                await socket.send("nonsense")
                assert json.loads(await socket.recv())["code"] == "protocol"
                await socket.wait_closed()
            async with asyncio.timeout(60):
                while not await sessions.connected("10.0.0.1"):
                    pass
        sessions.processor.takes_back.set()


async def test_connections_that_never_begin_keep_nobody_out() -> None:
    """Neither do connections that are held open, up to the number of sessions of this frontend."""
    sessions = Sessions(max_sessions=24)
    async with sessions.serving(), AsyncExitStack() as stack:
        for _ in range(24):
            try:
                await stack.enter_async_context(sessions.connect("10.0.0.1"))
            except websockets.InvalidStatus as refused:
                assert refused.response.status_code == 503
        assert await sessions.connected("10.0.0.2")


async def test_a_full_frontend_takes_a_session_that_was_not_begun_from_the_greediest() -> None:
    sessions = Sessions(max_sessions=4)
    async with sessions.serving(), AsyncExitStack() as stack:
        held = [await stack.enter_async_context(sessions.connect("10.0.0.1")) for _ in range(4)]
        with pytest.raises(websockets.InvalidStatus):
            await stack.enter_async_context(sessions.connect("10.0.0.1"))
        assert await sessions.connected("10.0.0.2")
        told = json.loads(await held[3].recv())
        assert told["code"] == "overloaded"
        assert told["message"].startswith("this session's place went to")
        with pytest.raises(websockets.ConnectionClosed):
            await held[3].recv()
        assert held[3].close_code == 1013
        await held[0].send("start")  # the others continue
        assert await held[0].recv() == "ready"


async def test_sessions_that_have_begun_are_kept() -> None:
    sessions = Sessions(max_sessions=4)
    async with sessions.serving(), AsyncExitStack() as stack:
        for _ in range(4):
            socket = await stack.enter_async_context(sessions.connect("10.0.0.1"))
            await socket.send("start")
            assert await socket.recv() == "ready"
        assert not await sessions.connected("10.0.0.2")


async def test_a_message_that_is_too_large_is_no_client_that_left() -> None:
    sessions = Sessions()
    async with sessions.serving():
        for sent in (b"x" * 1025, b"x" * 1024):
            async with sessions.connect("10.0.0.1") as socket:
                await socket.send("start")
                await socket.recv()
                await socket.send(sent)
                with pytest.raises(websockets.ConnectionClosed):
                    await socket.recv()
                assert socket.close_code == (1009 if len(sent) > 1024 else 1000)
        async with sessions.connect("10.0.0.1") as socket:
            await socket.send("start")
            await socket.recv()
            await socket.close(1009)  # a client may send this code, too
    assert sessions.ended() == {"too_large": 1, "done": 1, "client_gone": 1}


async def test_one_key_may_have_so_many_sessions_and_so_many_a_second() -> None:
    made = [new_key(name) for name in ("a", "b")]
    (first, _), (second, _) = made
    sessions = Sessions(
        keys=KeyRing([key for _, key in made]), connections=2, per_second=2.0, clock=Clock()
    )

    async def refused(key: str) -> str:
        with pytest.raises(websockets.InvalidStatus) as answer:
            await sessions.connect("10.0.0.1", key)
        response = answer.value.response
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        message: str = json.loads(response.body)["error"]["message"]
        return message

    async with sessions.serving():
        async with sessions.connect("10.0.0.1", first), sessions.connect("10.0.0.2", first):
            assert "you have 2 sessions and recordings open" in await refused(first)
            async with sessions.connect("10.0.0.1", second):
                pass
            await refused(first)
        assert "rate limit exceeded: 2 sessions and recordings per second" in await refused(first)
