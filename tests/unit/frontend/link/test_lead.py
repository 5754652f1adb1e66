"""Clients that send faster than real time, and the consequences."""

from __future__ import annotations

import asyncio

import pytest

from auricle.frontend.link.processor_link import Lead
from auricle.frontend.link.session_line import SessionLine
from auricle.load.chunk_load import ChunkLoad
from auricle.protocol.recognition import DecodeRequest, EncodeRequest
from auricle.protocol.sessions import OpenSession, PushAudio, SessionReady
from auricle_testing.server import eventually
from tests.fakes.clock import Clock
from tests.fakes.push import piece
from tests.fakes.workers import GRID, ScriptedWorkers, counting, noise, session

pytestmark = pytest.mark.unit


def test_a_client_in_real_time_is_never_ahead() -> None:
    clock = Clock()
    lead = Lead(1.0, clock)
    for _ in range(10_000):
        clock.now += 0.1
        assert not lead.add(0.1)


def test_a_client_may_send_its_allowance_at_once_and_not_more() -> None:
    lead = Lead(10.0, Clock())
    assert not any(lead.add(1.0) for _ in range(10))
    assert lead.add(0.1)


def test_after_a_stall_a_client_is_soon_live_again() -> None:
    """15 s arrive at once, 5 s too many; in real time, the lead then shrinks by 1 s every 4 s."""
    clock = Clock()
    lead = Lead(10.0, clock)
    assert lead.add(15.0)
    seconds = 0
    while lead.add(1.0):
        clock.now += 1.0
        seconds += 1
    assert 20 <= seconds <= 30


def test_pushes_say_that_their_client_is_ahead() -> None:
    line = SessionLine(OpenSession("s", "t", None, "", 640))
    line.open_message()
    line.receive(SessionReady("s"))
    line.add(piece(0, 100))
    line.ahead = True
    message = line.next_message()
    assert isinstance(message, PushAudio)
    assert message.ahead


@pytest.mark.parametrize("ahead", [False, True])
async def test_what_is_ahead_is_background_work_and_no_load(ahead: bool) -> None:
    workers, load = ScriptedWorkers(counting), ChunkLoad(60.0)
    subject = session(workers, load=load)
    events = subject.events()
    await anext(events)
    for at in range(0, 8 * GRID, GRID):
        await subject.push(at, noise(GRID), 1.0, ahead=ahead)
        await anext(events)
    requests: list[DecodeRequest | EncodeRequest] = [*workers.decodes, *workers.encodes]
    assert {request.background for request in requests} == {ahead}
    assert (len(load._taken) > 0) is not ahead
    await events.aclose()


async def test_a_decode_given_up_for_audio_that_is_ahead_is_no_load_either() -> None:
    workers, load = ScriptedWorkers(counting), ChunkLoad(60.0)
    workers.hold = asyncio.Event()
    subject = session(workers, load=load)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID), 1.0, ahead=True)
    following = asyncio.ensure_future(anext(events))
    await workers.asked.wait()
    await subject.push(GRID, noise(100), 1.0, "endpoint", ahead=True)
    await following
    assert not load._taken
    assert load.seconds == 0.0
    await events.aclose()


async def test_sessions_that_are_ahead_decode_in_turns_and_live_ones_do_not_wait_for_them() -> None:
    workers, turns = ScriptedWorkers(counting), asyncio.Semaphore(1)
    workers.hold = asyncio.Event()
    subjects = [session(workers, ahead_turns=turns) for _ in range(3)]
    streams = [subject.events() for subject in subjects]
    for stream in streams:
        await anext(stream)
    for subject, ahead in zip(subjects, (True, True, False), strict=True):
        await subject.push(0, noise(GRID), 1.0, ahead=ahead)
    partials = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await eventually(lambda: len(workers.decodes) == 2, seconds=60)
    assert [request.background for request in workers.decodes] in ([True, False], [False, True])
    workers.hold.set()
    await asyncio.gather(*partials)
    assert len(workers.decodes) == 3
    for stream in streams:
        await stream.aclose()
