"""A session is complete after its client has received all messages, even if it leaves at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from auricle.config.settings import FrontendSettings
from auricle.dynamo import Tokens
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens
from auricle.frontend.protocols.stream.session import StreamProtocol
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.peers import Peers
from auricle.process.tracing import OFF
from auricle.protocol.sessions import SessionDone, SessionReady
from auricle.protocol.stream import Usage
from tests.fakes.place import HeldPlace

pytestmark = pytest.mark.unit

START = '{"type": "start", "sample_rate": 16000, "endpointing": {"enabled": false}}'


class Link:
    """A session that ends at once if it `ends`; closing its event stream takes a while."""

    missing = None
    run = ProcessorLink.run

    def __init__(self, ends: bool) -> None:
        self._ends = ends

    async def add(self, _piece: object) -> None:
        pass

    def finish(self, _samples: int) -> None:
        pass

    async def pump(self) -> None:
        await asyncio.Event().wait()

    async def events(self) -> AsyncIterator[SessionReady | SessionDone]:
        try:
            yield SessionReady("s")
            if not self._ends:
                await asyncio.Event().wait()
            yield SessionDone(Usage())
        finally:
            for _ in range(10):
                await asyncio.sleep(0)


class Socket(HeldPlace):
    """A client that sends start and end, and leaves at the first message of the type `until`."""

    session = "s"
    trace = ""
    client = SimpleNamespace(key=ANYONE, tenant="default")
    resumes = False

    def __init__(self, until: str, delivered: bool = True) -> None:
        super().__init__()
        self._messages = [START, '{"type": "end"}']
        self._until = f'"type":"{until}"'
        self._delivered = delivered
        self._left = asyncio.Event()

    async def receive(
        self, _seconds: float, _what: str, _enough: int = 0
    ) -> tuple[str | None, bytes]:
        return self._messages.pop(0), b""

    async def charge(self, _seconds: float) -> None:
        pass

    async def read_up(self) -> None:
        await self._left.wait()
        raise ClientDisconnected

    async def send(self, text: str) -> None:
        if self._until in text:
            self._left.set()
            await asyncio.sleep(0)
            if not self._delivered:
                raise ClientDisconnected


async def serve(socket: Socket, ends: bool = True) -> None:
    frontend: Any = SimpleNamespace(
        settings=FrontendSettings(),
        chunk_ms=lambda wanted: 640,
        detector=MagicMock(),
        turn_probability=lambda _client: None,
        admission=SessionAdmission(MagicMock(), 1),
        metrics=MagicMock(),
        tracer=OFF,
        model="demo",
        peers=Peers(),
        link=lambda opened, *_, **_named: Link(ends),
        lead=lambda: None,
        check_turns=lambda wanted, param: None,
        check_language=lambda language, among: None,
        check_words=lambda wanted, **_named: None,
        check_speakers=lambda wanted, **_named: None,
        check_translator=lambda targets, **_named: None,
    )
    tokens = ResumeTokens(Tokens(None, PURPOSE), 120.0, "demo")
    async with asyncio.timeout(60):
        await StreamProtocol(frontend, tokens).serve(socket)  # type: ignore[arg-type]


async def test_a_client_that_leaves_at_its_last_message_had_all_it_came_for() -> None:
    await serve(Socket(until="done"))


async def test_a_client_that_leaves_before_its_last_message_is_gone() -> None:
    with pytest.raises(ClientDisconnected):
        await serve(Socket(until="ready"), ends=False)


async def test_a_client_to_which_the_last_message_cannot_be_sent_is_gone() -> None:
    with pytest.raises(ClientDisconnected):
        await serve(Socket(until="done", delivered=False))
