"""The transcript bus while NATS is down, frozen or restarted, on the frontend's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
import uvloop
from nats.js.api import StreamConfig
from prometheus_client import CollectorRegistry

from auricle.core.aio import cancelled
from auricle.frontend.exporters import nats as nats_bus
from auricle.frontend.exporters import nats as transcript_stream
from auricle.frontend.exporters.nats import STREAM, NatsBus
from auricle.frontend.exporters.transcripts import TranscriptSource
from auricle.protocol.sessions import ResumePoint, SegmentFinal
from auricle_testing.server import ANSWER_SECONDS, eventually
from auricle_testing.services import Nats, stored_messages

pytestmark = pytest.mark.integration


def on_uvloop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """On a lost connection, uvloop's transports raise other errors than asyncio's."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        uvloop.run(test(*arguments, **named))

    return run


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Nats]:
    made = Nats(tmp_path)
    yield made
    made.end(signal.SIGKILL)


class Bus:
    """A bus under test; `say` publishes the next final."""

    def __init__(self, server: Nats, max_queued: int = 1000) -> None:
        self.registry = CollectorRegistry()
        self.bus = NatsBus(
            server.address, "test", max_queued=max_queued, keep_hours=1.0, registry=self.registry
        )
        self._event = self.bus.listener(TranscriptSource("acme", "s1")).on_event
        self.said = 0

    def say(self, text: str = "text") -> None:
        self._event(SegmentFinal(self.said, text, 0, 1000, "English", ResumePoint()))
        self.said += 1

    def number(self, name: str) -> float:
        return self.registry.get_sample_value(f"auricle_frontend_transcript_messages_{name}") or 0.0

    def down(self) -> bool:
        return not self.registry.get_sample_value("auricle_frontend_transcript_bus_up")

    async def all_published(self) -> None:
        await eventually(lambda: self.number("waiting") == 0, seconds=60)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.bus.run())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            await cancelled([task])


def segments(messages: list[Any]) -> list[int]:
    return [message["segment"] for message in messages]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@on_uvloop
async def test_nats_may_end_again_and_again(server: Nats, number: signal.Signals) -> None:
    bus = Bus(server)
    async with bus.running():
        for _ in range(4):
            server.start()
            bus.say()
            await bus.all_published()
            bus.say()  # may be in flight when the server ends
            await asyncio.sleep(0)
            server.end(number)
            for _ in range(3):
                bus.say()
            # Wait until the bus has tried, and its connection was refused.
            await eventually(bus.down, seconds=60)
            bus.say()
        server.start()
        await bus.all_published()
        assert segments(await stored_messages(server.address)) == list(range(bus.said))
    assert bus.number("dropped_total") == 0


@on_uvloop
async def test_a_frozen_nats_delays_messages_and_doubles_none(
    server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resumed server receives the buffered message and its retry, and drops the duplicate."""
    monkeypatch.setattr(transcript_stream, "_ANSWER_SECONDS", 1.0)
    server.start()
    bus = Bus(server)
    async with bus.running():
        bus.say()
        await bus.all_published()
        for _ in range(3):
            server.freeze()
            bus.say()
            bus.say()
            await eventually(bus.down, seconds=60)
            server.signal(signal.SIGCONT)
            await bus.all_published()
        assert segments(await stored_messages(server.address)) == list(range(bus.said))


@on_uvloop
async def test_a_message_stored_before_the_outage_is_not_stored_again_though_its_id_is_forgotten(
    server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_stream, "_DUPLICATE_SECONDS", 0.1)  # the least that NATS permits
    server.start()
    bus = Bus(server)
    lose = Acknowledgements(monkeypatch)
    async with bus.running():
        bus.say()
        await bus.all_published()
        lose.next = True
        bus.say()
        bus.say()
        await bus.all_published()
        assert lose.lost == 1
        assert segments(await stored_messages(server.address)) == [0, 1, 2]


class Acknowledgements:
    """Loses the acknowledgement of a stored message, and lets the stream forget its id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.next = False
        self.lost = 0
        publish = nats.js.JetStreamContext.publish

        async def losing(stream: Any, *arguments: Any, **options: Any) -> Any:
            acknowledged = await publish(stream, *arguments, **options)
            if self.next:
                self.next = False
                self.lost += 1
                await asyncio.sleep(0.5)  # longer than the stream's duplicate window
                raise nats.errors.TimeoutError
            return acknowledged

        monkeypatch.setattr(nats.js.JetStreamContext, "publish", losing)


@on_uvloop
async def test_an_outage_is_two_lines_of_the_log_however_long_it_lasts(
    server: Nats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(transcript_stream, "_CONNECT_SECONDS", 0.2)
    attempts = 0
    connected = transcript_stream.connected

    def counted(*arguments: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return connected(*arguments)

    monkeypatch.setattr(nats_bus, "connected", counted)
    bus = Bus(server, max_queued=2)
    with caplog.at_level(logging.INFO, logger="auricle"):
        async with bus.running():  # the bus starts while NATS is down
            for _ in range(5):
                bus.say()
            await eventually(lambda: attempts >= 10, seconds=60)
            monkeypatch.undo()
            server.start()
            await bus.all_published()
            assert segments(await stored_messages(server.address)) == [3, 4]
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("NATS is unavailable")] == [lines[1]]
    assert lines[0] == "too many transcripts wait for NATS: the oldest are dropped"
    assert lines[-1].startswith("NATS is there again after")
    assert lines[-1].endswith("transcripts are published, 3 were dropped")
    assert len(lines) == 3


@on_uvloop
async def test_a_message_that_nats_never_takes_holds_up_no_other(server: Nats) -> None:
    server.start()
    await eventually(lambda: _listens(server.port), seconds=60)
    connection = await nats.connect(server.address, connect_timeout=ANSWER_SECONDS)
    try:
        await connection.jetstream(timeout=ANSWER_SECONDS).add_stream(
            StreamConfig(name=STREAM, subjects=["test.transcript.>"], max_msg_size=1000)
        )
    finally:
        await connection.close()
    bus = Bus(server)
    async with bus.running():
        bus.say()
        bus.say("more than the operator permits " * 100)  # more than the stream accepts
        bus.say("more than anybody permits " * 100_000)  # more than the server accepts
        bus.say()
        await bus.all_published()
        assert segments(await stored_messages(server.address)) == [0, 3]
    assert bus.number("dropped_total") == 2


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@on_uvloop
async def test_a_frontend_that_ends_during_an_outage_says_what_is_lost(
    server: Nats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "_FLUSH_SECONDS", 0.5)
    bus = Bus(server)
    bus.say()
    bus.say()
    task = asyncio.create_task(bus.bus.run())
    await eventually(lambda: "NATS is unavailable" in caplog.text, seconds=60)
    await cancelled([task])
    assert task.cancelled()
    assert "Dropped 2 transcripts: NATS publish failed" in caplog.text
