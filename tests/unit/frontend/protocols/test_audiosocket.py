"""AudioSocket: its frames, and calls on a real port with a fake processor."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
import pytest

from auricle.config.settings import FrontendSettings
from auricle.core.errors import ProtocolError, SettingsError
from auricle.frontend.protocols.audiosocket import (
    HANG_UP,
    AudioSocketFrame,
    FrameParser,
    audiosocket_protocol,
)
from auricle.frontend.routes import TcpPorts
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ApiKey, KeyRing, new_key
from tests.fakes.audiosocket import BEGUN, CALL, frame
from tests.fakes.doors import event_loop_policy
from tests.fakes.tcp_port import Port
from tests.fakes.transcript_bus import KeptBus
from tests.waiting import until

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.unit
LOUD = np.full(8_000, 8_000, "<i2").tobytes()


def audio(samples: bytes, kind: int = 0x10) -> bytes:
    """Audio in frames of 20 ms, like Asterisk's."""
    return b"".join(frame(kind, samples[at : at + 320]) for at in range(0, len(samples), 320))


DTMF = frame(0x03, b"5")


def asterisk(*keys: ApiKey, **settings: Any) -> tuple[Port, KeptBus]:
    bus = KeptBus()
    return Port(audiosocket_protocol, keys or None, bus=bus, **settings), bus


async def told(port: Port, data: bytes) -> bytes:
    """All that the server sends to a call until its connection ends."""
    async with asyncio.timeout(120), port.client() as (reader, writer):
        writer.write(data)
        return await reader.read()


# ── frames ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("packet", [1, 5, 1_000])
def test_frames_are_read_however_they_are_cut(packet: int) -> None:
    data = BEGUN + frame(0x10, b"\1\2") + DTMF + HANG_UP
    parser, found = FrameParser(), []
    for at in range(0, len(data), packet):
        parser.feed(data[at : at + packet])
        while (one := parser.next()) is not None:
            found.append(one)
    assert found == [
        *(AudioSocketFrame(0x01, CALL.bytes), AudioSocketFrame(0x10, b"\1\2")),
        *(AudioSocketFrame(0x03, b"5"), AudioSocketFrame(0x00, b"")),
    ]


def test_what_is_no_frame_is_named() -> None:
    parser = FrameParser()
    parser.feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ProtocolError, match="it has no kind 0x47"):
        parser.next()


# ── calls ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [HANG_UP, frame(0xFF, b"\1")])
async def test_the_text_of_a_call_is_on_the_bus_under_its_id(end: bytes) -> None:
    port, bus = asterisk()
    async with asyncio.timeout(120), port.serving():
        assert await told(port, BEGUN + audio(LOUD) + DTMF + end) == HANG_UP
        await until(lambda: port.ended() == {"done": 1.0})
    ((call, part, text),) = bus.finals
    assert (call, text) == (str(CALL), "word")
    assert part.startswith("sess_")


async def test_a_caller_who_is_gone_has_said_what_was_heard() -> None:
    port, bus = asterisk()
    async with asyncio.timeout(120), port.serving():
        async with port.client() as (_, writer):
            writer.write(BEGUN + audio(LOUD))
            await until(lambda: port.frontend.admission.open)
        await until(lambda: port.ended() == {"done": 1.0})
    assert [text for *_, text in bus.finals] == ["word"]


async def test_other_rates_are_taken_as_newer_versions_send_them() -> None:
    port, bus = asterisk()
    async with port.serving():
        await told(port, BEGUN + audio(LOUD * 2, kind=0x12) + HANG_UP)
    assert [text for *_, text in bus.finals] == ["word"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a frame of AudioSocket"),
        (audio(LOUD), "the first frame must be the call's id"),
        (frame(0x01, b"short"), "a UUID of 16 bytes"),
        (BEGUN + audio(LOUD) + audio(LOUD, kind=0x12), "a frame of kind 0x12 cannot come"),
        (BEGUN + audio(LOUD) + BEGUN, "a frame of kind 0x01 cannot come"),
        (b"", "the call's id and its first audio took longer than 0.05 s"),
        (BEGUN, "the call's id and its first audio took longer than 0.05 s"),
        (BEGUN + DTMF * 64, "the call's id must be followed by its audio"),
        (BEGUN + audio(LOUD), "the next audio took longer than 0.05 s"),
    ],
)
async def test_what_is_wrong_hangs_up_and_is_in_the_log(
    data: bytes, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port, _ = asterisk(start_timeout_seconds=0.05, idle_timeout_seconds=0.05)
    async with port.serving():
        assert set(await told(port, data)) == {0}
    assert says in caplog.text


async def test_a_call_that_is_only_dialled_has_one_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    port, _ = asterisk(start_timeout_seconds=0.3)
    async with asyncio.timeout(120), port.serving(), port.client() as (reader, writer):
        writer.write(BEGUN)
        hung_up = asyncio.create_task(reader.read())
        for _ in range(60):  # one more digit each time, long before the deadline of a read
            writer.write(DTMF)
            await asyncio.wait([hung_up], timeout=0.02)
        assert await hung_up == HANG_UP
    assert "the call's id and its first audio took longer than 0.3 s" in caplog.text


async def test_its_callers_are_those_of_the_tenant_that_was_named() -> None:
    (_, key), (_, other) = new_key("calls"), new_key("acme")
    port, bus = asterisk(key, other, keyless_tenant="calls")
    async with asyncio.timeout(120), port.serving():
        await told(port, BEGUN + audio(LOUD) + HANG_UP)
        await until(lambda: bus.finals)
        port.access.replace([other])
        assert await told(port, BEGUN + audio(LOUD)) == HANG_UP
    assert {message.tenant for message in bus.messages} == {"calls"}


def test_a_port_whose_text_would_go_nowhere_is_refused_at_the_start() -> None:
    settings = FrontendSettings(audiosocket_port=9_092)
    with pytest.raises(SettingsError, match=r"Frontend\.audiosocket_port is set, but the text"):
        TcpPorts(settings, Access(KeyRing(None)), lambda _host, _port: pytest.fail("bound"))
