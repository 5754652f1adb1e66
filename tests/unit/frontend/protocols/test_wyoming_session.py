"""Connections of Wyoming, on a real port with a fake processor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import numpy as np
import pytest

from auricle.config.settings import FrontendSettings
from auricle.core.errors import SettingsError
from auricle.frontend.protocols.wyoming import Event, EventParser, wyoming_protocol
from auricle.frontend.routes import TcpPorts
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import KeyRing, new_key
from auricle.frontend.transport.connections import ConnectionLimits
from tests.fakes.doors import event_loop_policy
from tests.fakes.tcp_port import Port
from tests.fakes.wyoming import sent
from tests.waiting import until

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.unit
FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
LOUD = np.full(16_000, 8_000, "<i2").tobytes()
START, CHUNK = sent("audio-start", FORMAT), sent("audio-chunk", FORMAT, LOUD)
STOP = sent("audio-stop", {})
UTTERANCE = START + CHUNK + STOP


def wyoming(*keys: Any, **settings: Any) -> Port:
    return Port(
        lambda frontend, access: wyoming_protocol(frontend, access, ("English",)),
        keys or None,
        **settings,
    )


async def events(reader: asyncio.StreamReader) -> AsyncIterator[Event]:
    """The server's events until it closes."""
    parser = EventParser(1_000)
    while data := await reader.read(1 << 16):
        parser.feed(data)
        while (event := parser.next()) is not None:
            yield event


async def answers(port: Port, data: bytes, last: str = "transcript-stop") -> list[Event]:
    """The events that a new connection receives, until `last` or its end."""
    found = []
    async with asyncio.timeout(120), port.client() as (reader, writer):
        writer.write(data)
        async for event in events(reader):
            found.append(event)
            if event.kind == last:
                break
    return found


async def error(port: Port, data: bytes) -> tuple[str, str]:
    """The code and text with which a connection ends."""
    (event,) = await answers(port, data)
    assert event.kind == "error"
    return event.data["code"], event.data["text"]


async def test_an_utterance_is_answered_with_its_text() -> None:
    port = wyoming()
    async with asyncio.timeout(120), port.serving():
        found = await answers(port, UTTERANCE)
        await until(lambda: port.ended() == {"done": 1.0})
    assert found[-2].kind == "transcript"
    assert found[-2].data == {"text": "word", "language": "en"}


async def test_events_that_are_not_complete_hold_a_bounded_number_of_bytes() -> None:
    port = wyoming(limits=ConnectionLimits(unadmitted_bytes=4 << 20))
    begun = sent("audio-chunk", FORMAT, bytes(1_000_000))[:200_000]
    held = port.connections.held
    async with asyncio.timeout(120), port.serving(), AsyncExitStack() as stack:
        for number in (1, 2):
            _, writer = await stack.enter_async_context(port.client())
            writer.write(begun)
            await until(lambda number=number: held.total >= number * 199_000)
        reader, writer = await stack.enter_async_context(port.client())
        writer.write(begun)
        with suppress(ConnectionError):
            await reader.read()  # until it is closed
        assert held.total <= 2 * len(begun)


async def test_a_session_holds_what_it_needs() -> None:
    port = wyoming(limits=ConnectionLimits(unadmitted_bytes=4 << 20))
    async with asyncio.timeout(120), port.serving(), port.client() as (reader, writer):
        writer.write(START + CHUNK)
        await until(lambda: port.frontend.admission.open)
        writer.write(sent("audio-chunk", FORMAT, bytes(900_000)) + STOP)
        async for event in events(reader):
            if event.kind == "transcript":
                break
        assert port.connections.held.total == 0


async def test_an_event_has_one_deadline_however_many_pieces_it_has() -> None:
    port = wyoming(keep_alive_seconds=0.3)
    async with asyncio.timeout(120), port.serving(), port.client() as (reader, writer):
        told = asyncio.create_task(reader.read())
        while not told.done():  # a byte of the header at a time
            writer.write(b"{")
            await asyncio.wait([told], timeout=0.02)
        assert b"the next event took longer than 0.3 s" in await told


async def test_audio_without_a_start_has_its_format_in_each_chunk() -> None:
    port = wyoming()
    async with port.serving():
        found = await answers(port, CHUNK + sent("ping", {"text": "hi"}) + STOP)
    assert found[-2].data["text"] == "word"
    assert Event("pong", {"text": "hi"}) in found


async def test_what_is_not_known_is_dropped() -> None:
    port = wyoming()
    async with port.serving():
        found = await answers(port, sent("run-pipeline", {"start_stage": "asr"}) + STOP)
    assert [e.kind for e in found] == ["transcript-start", "transcript", "transcript-stop"]


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "protocol", "not an event of Wyoming"),
        (sent("audio-start", FORMAT | {"channels": 2}), "unsupported_value", "it must be 1"),
        (sent("audio-start", FORMAT | {"width": 4}), "unsupported_value", "it must be 2"),
        (sent("audio-start", FORMAT | {"rate": 1}), "bad_request", "sample rate"),
        (START + sent("audio-chunk", FORMAT | {"rate": 8_000}), "unsupported_value", "change"),
        (sent("transcribe", {"name": "large"}) + START, "model_not_found", "served here: demo"),
        (sent("transcribe", {"language": "x" * 33}) + START, "unsupported_value", "at most 32"),
        (sent("transcribe", {"transcript_terms": ["x" * 2_001]}) + START, "unsupported_value", "2"),
    ],
)
async def test_what_is_wrong_is_told_and_the_connection_closed(
    data: bytes, code: str, says: str
) -> None:
    port = wyoming()
    async with port.serving():
        found, text = await error(port, data)
        assert found == code
        assert says in text
        assert (await answers(port, UTTERANCE))[-2].data["text"] == "word"


# ── limits ──────────────────────────────────────────────────────────────────


async def test_who_is_not_let_in_is_told_when_to_come_again() -> None:
    port = wyoming(max_sessions=1)
    async with asyncio.timeout(120), port.serving(), port.client() as (_, writer):
        writer.write(START + CHUNK)
        await until(lambda: port.frontend.admission.open)
        (refused,) = await answers(port, UTTERANCE)
    assert refused.data == {
        "code": "overloaded",
        "text": "all 1 sessions are in use",
        "retry_after_seconds": 5.0,
    }


async def test_connections_and_their_rate_are_limited_like_all_others() -> None:
    crowded = wyoming(limits=ConnectionLimits(most=1))
    async with crowded.serving(), crowded.client() as (reader, writer):
        writer.write(START + CHUNK)
        await reader.read(1)  # a session, as an idle connection would make room
        assert await error(crowded, b"") == ("overloaded", "all 1 connections are in use")
    hurried = wyoming(limits=ConnectionLimits(per_second=0.5))
    async with hurried.serving():
        await answers(hurried, UTTERANCE)
        assert (await error(hurried, b""))[0] == "rate_limited"


@pytest.mark.parametrize(
    ("keys", "tenant", "says"),
    [
        (["home"], None, "Frontend.wyoming_port would let in everybody"),
        (["home"], "acme", "Frontend.keyless_tenant 'acme' admits no client"),
        (None, "acme", "Frontend.keyless_tenant is set without API keys"),
    ],
)
def test_a_port_without_keys_needs_a_tenant_where_there_are_keys(
    keys: list[str] | None, tenant: str | None, says: str
) -> None:
    settings = FrontendSettings(wyoming_port=10_300, keyless_tenant=tenant)
    ring = KeyRing(None if keys is None else [new_key(name)[1] for name in keys])
    with pytest.raises(SettingsError, match=says):
        TcpPorts(settings, Access(ring), lambda _host, _port: pytest.fail("no port is bound"))
