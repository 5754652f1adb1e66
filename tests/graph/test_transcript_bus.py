"""The transcript bus over a real NATS server, including outages and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nats
import pytest
from prometheus_client import CollectorRegistry

from auricle.client.stream import stream_file
from auricle.core.aio import cancelled
from auricle.frontend.exporters.nats import STREAM, NatsBus
from auricle.frontend.exporters.transcripts import TranscriptSource
from auricle.protocol.sessions import (
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionReady,
)
from auricle.protocol.stream import Usage
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually, free_port, frontend_beside
from auricle_testing.services import nats_server

SPOKEN = TranscriptSource("acme", "s1")
RESUME = ResumePoint()


def partial(committed: str, rest: str = "") -> SegmentPartial:
    return SegmentPartial(0, committed, rest, 640, "English", RESUME)


def final(text: str, segment: int = 0) -> SegmentFinal:
    return SegmentFinal(segment, text, 0, 1000, "English", RESUME)


class Bus:
    """A bus and its metrics."""

    def __init__(self, address: str, max_queued: int = 100) -> None:
        self.registry = CollectorRegistry()
        self.bus = NatsBus(
            address, "test", max_queued=max_queued, keep_hours=1.0, registry=self.registry
        )

    def number(self, name: str) -> float:
        return self.registry.get_sample_value(f"auricle_frontend_transcript_messages_{name}") or 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.bus.run())
        try:
            yield
        finally:
            await cancelled([task])


async def stored(address: str) -> list[tuple[str, Any]]:
    """All messages in the stream: (subject, message)."""
    connection = await nats.connect(address, connect_timeout=ANSWER_SECONDS)
    try:
        stream = connection.jetstream(timeout=ANSWER_SECONDS)
        state = (await stream.stream_info(STREAM)).state
        numbers = range(state.first_seq, state.last_seq + 1)
        received = [await stream.get_msg(STREAM, number) for number in numbers]
        return [(message.subject or "", json.loads(message.data or b"")) for message in received]
    finally:
        await connection.close()


@pytest.mark.integration
async def test_settled_text_is_published_once_and_other_events_are_not(tmp_path: Path) -> None:
    with nats_server(tmp_path) as address:
        subject = Bus(address)
        async with subject.running():
            heard = subject.bus.listener(SPOKEN).on_event
            heard(SessionReady("s1"))
            heard(partial("", "hel"))
            heard(partial("hello", " wor"))
            heard(partial("hello", " world"))
            heard(final("hello world"))
            heard(SessionDone(Usage()))
            await eventually(lambda: subject.number("published_total") == 2, seconds=60)
        messages = await stored(address)
    assert [(s, m["type"], m["text"]) for s, m in messages] == [
        ("test.transcript.acme.s1", "committed", "hello"),
        ("test.transcript.acme.s1", "final", "hello world"),
    ]


@pytest.mark.integration
async def test_the_same_text_from_another_processor_is_there_once(tmp_path: Path) -> None:
    with nats_server(tmp_path) as address:
        subject = Bus(address)
        async with subject.running():
            for _ in range(2):
                subject.bus.listener(SPOKEN).on_event(final("hello"))
            await eventually(lambda: subject.number("published_total") == 2, seconds=60)
        assert len(await stored(address)) == 1
    assert subject.number("duplicate_total") == 1


@pytest.mark.integration
async def test_calls_with_the_same_id_are_all_there(tmp_path: Path) -> None:
    with nats_server(tmp_path) as address:
        subject = Bus(address)
        async with subject.running():
            for tenant, own in (("acme", "sess_1"), ("globex", "sess_2"), ("acme", "sess_3")):
                source = TranscriptSource(tenant, "CA1", "inbound-MZ1", own)
                subject.bus.listener(source).on_event(final("hello"))
            await eventually(lambda: subject.number("published_total") == 3, seconds=60)
        messages = await stored(address)
    assert [(s, m["server_session"]) for s, m in messages] == [
        ("test.transcript.acme.CA1.sess_1", "sess_1"),
        ("test.transcript.globex.CA1.sess_2", "sess_2"),
        ("test.transcript.acme.CA1.sess_3", "sess_3"),
    ]
    assert subject.number("duplicate_total") == 0


@pytest.mark.integration
async def test_nothing_is_lost_when_nats_is_started_again(tmp_path: Path) -> None:
    port = free_port()
    subject = Bus(f"nats://127.0.0.1:{port}")
    heard = subject.bus.listener(SPOKEN).on_event
    async with subject.running():
        heard(final("before it runs", 0))
        with nats_server(tmp_path, port):
            await eventually(lambda: subject.number("published_total") == 1, seconds=60)
        for number in range(1, 4):
            heard(final("while it is down", number))
        with nats_server(tmp_path, port) as address:
            await eventually(lambda: subject.number("waiting") == 0, seconds=60)
            messages = await stored(address)
    assert [message["segment"] for _, message in messages] == [0, 1, 2, 3]
    assert subject.number("dropped_total") == 0


@pytest.mark.integration
async def test_the_bus_ends_when_told_to_though_nats_is_gone(tmp_path: Path) -> None:
    port = free_port()
    subject = Bus(f"nats://127.0.0.1:{port}")
    heard = subject.bus.listener(SPOKEN).on_event
    task = asyncio.create_task(subject.bus.run())
    with nats_server(tmp_path, port):
        heard(final("text"))
        await eventually(lambda: subject.number("published_total") == 1, seconds=60)
    heard(final("no subscriber takes this", 1))
    async with asyncio.timeout(60):
        await cancelled([task])
    assert task.cancelled()


@pytest.mark.unit
def test_without_nats_the_oldest_messages_give_way() -> None:
    subject = Bus("nats://127.0.0.1:1", max_queued=2)
    heard = subject.bus.listener(SPOKEN).on_event
    for number in range(5):
        heard(final("text", number))
    assert subject.number("waiting") == 2
    assert subject.number("dropped_total") == 3


@pytest.mark.end_to_end
async def test_a_session_is_on_the_bus_and_nats_gone_delays_nothing(
    server: Server, tmp_path: Path
) -> None:
    port = free_port()
    with frontend_beside(server, f"--Frontend.nats_server=nats://127.0.0.1:{port}") as frontend:
        hello = recordings.samples("hello")
        absent = [event async for event in stream_file(frontend.url, hello, live=False)]
        assert absent[-1]["type"] == "done"
        with nats_server(tmp_path, port) as address:
            present = [event async for event in stream_file(frontend.url, hello, live=True)]
            waiting = "auricle_frontend_transcript_messages_waiting"
            await eventually(lambda: frontend.metric("Frontend", waiting) == 0, seconds=60)
            messages = await stored(address)
    by_session: dict[str, list[Any]] = {}
    for name, message in messages:
        assert name == f"auricle.transcript.default.{message['session']}"
        by_session.setdefault(message["session"], []).append(message)
    sessions = [absent[0]["session"], present[0]["session"]]
    assert list(by_session) == sessions
    for session, events in zip(sessions, (absent, present), strict=True):
        finals = [m["text"] for m in by_session[session] if m["type"] == "final"]
        assert " ".join(text for text in finals if text) == events[-1]["text"]
        committed = [m["text"] for m in by_session[session] if m["type"] == "committed"]
        assert all(later.startswith(first) for first, later in pairwise(committed))
