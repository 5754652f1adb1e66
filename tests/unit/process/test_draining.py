"""Draining: no new work, accepted work may end, and every wait is bounded."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from auricle.audio.voice_activity import VAD_FRAME
from auricle.core.aio import with_timeout
from auricle.core.errors import Overloaded
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.transport.admission import SessionAdmission
from auricle.process.draining import Drain
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.workers.pd.worker import LiveSegments
from tests.fakes.clock import Clock
from tests.fakes.load import worker
from tests.fakes.workers import ScriptedWorkers

pytestmark = pytest.mark.unit


async def test_a_process_goes_when_nothing_is_held_any_more() -> None:
    held = [2]
    drain = Drain(lambda: held[0], notice_seconds=0.0, deadline=30.0)
    going = asyncio.create_task(drain.run())
    await asyncio.sleep(0)
    assert drain.started
    assert not going.done()
    held[0] = 0
    async with asyncio.timeout(60):
        await going


async def test_it_stays_until_others_have_heard_that_it_goes() -> None:
    drain = Drain(lambda: 0, notice_seconds=0.3, deadline=30.0)
    began = asyncio.get_running_loop().time()
    await drain.run()
    assert asyncio.get_running_loop().time() - began >= 0.3


async def test_what_never_ends_is_left_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await Drain(lambda: 3, notice_seconds=0.0, deadline=0.2).run()
    assert "still held after 0.2 s: 3" in caplog.text


def test_a_segment_is_open_on_a_pd_worker_from_its_first_partial_to_its_final() -> None:
    clock = Clock(0.0)
    segments = LiveSegments(clock)
    segments.decoded("a", final=False)
    segments.decoded("b", final=False)
    segments.decoded("a", final=True)
    assert len(segments) == 1
    clock.now = 20.0
    assert len(segments) == 0  # it has ended, or decodes on another worker


async def test_a_segment_stays_on_a_pd_worker_that_drains_and_the_next_goes_elsewhere() -> None:
    pool = PdPool(ScriptedWorkers(lambda _: ""), 1.0, 3)  # type: ignore[arg-type]
    placement = Placement(pool)
    first = await placement.instance()
    pool.loads.update(worker(first, draining=True))
    assert await placement.instance() == first
    placement.leave()  # as at the end of a segment
    assert await placement.instance() != first


async def test_an_encode_worker_that_drains_is_left_at_once() -> None:
    pool = EncodePool(ScriptedWorkers(lambda _: ""), 1.0, 3)  # type: ignore[arg-type]
    placement = Placement(pool)
    first = await placement.instance()
    pool.loads.update(worker(first, kind="encode_worker", draining=True))
    assert await placement.instance() != first


def test_a_frontend_that_goes_lets_nobody_in_and_cuts_only_at_the_end() -> None:
    clock = Clock(0.0)
    admission = SessionAdmission(None, 4, clock)  # type: ignore[arg-type]
    with admission.slot("a"):
        assert not admission.draining and not admission.must_end(lambda: True)
        assert admission.begin_drain(10.0) == 1
        with pytest.raises(Overloaded, match="shutting down"), admission.slot("a"):
            pass
        clock.now = 9.0
        admission.begin_drain(10.0)  # repeated: the deadline stays
        assert (
            admission.draining
            and admission.must_end(lambda: True)
            and not admission.must_end(lambda: False)
        )
        clock.now = 10.0
        assert admission.must_end(lambda: False)
    assert admission.begin_drain(10.0) == 0


async def test_a_frontend_that_goes_finishes_recordings_and_takes_no_new_ones() -> None:
    admission = SessionAdmission(None, 4)  # type: ignore[arg-type]
    with admission.recording() as over:
        assert admission.begin_drain(10.0) == 1
        assert not over.done()
        with pytest.raises(Overloaded, match="shutting down"), admission.recording():
            pass
    assert admission.begin_drain(10.0) == 0


def test_sessions_are_asked_to_look_for_as_long_as_the_frontend_goes() -> None:
    admission, looked = SessionAdmission(None, 4), []  # type: ignore[arg-type]
    with admission.interrupting(lambda: looked.append(1)):
        assert not looked
        admission.begin_drain(10.0)
        admission.begin_drain(10.0)
    admission.begin_drain(10.0)
    assert len(looked) == 2


def test_a_gate_that_rests_can_be_followed_by_another_without_a_gap() -> None:
    """Audio passed to two gates, the second from where the first is idle, is released once."""
    speech, silence = [0.9] * 40, [0.01] * 40
    probabilities = [*silence, *speech, *silence, *speech, *silence]
    audio = np.arange(len(probabilities) * VAD_FRAME, dtype=np.int16)

    def released(gate: Endpointer, first: int, last: int) -> list[AudioChunk]:
        pieces = []
        for n in range(first, last):
            events = gate.push(audio[n * VAD_FRAME : (n + 1) * VAD_FRAME], [probabilities[n]])
            pieces += [e for e in events if isinstance(e, AudioChunk)]
        return pieces

    options = EndpointingOptions(0.5, 500, 300)
    whole = released(Endpointer(options), 0, len(probabilities))
    one = Endpointer(options)
    assert one.resting_at == 0
    before = released(one, 0, 118)
    assert one.resting_at is not None
    assert before[-1].end <= one.resting_at
    begun = one.resting_at // VAD_FRAME
    after = released(Endpointer(options), begun, len(probabilities))
    heard = sum(len(p.pcm) for p in before) + sum(len(p.pcm) for p in after)
    assert heard == sum(len(p.pcm) for p in whole)


def test_a_gate_within_speech_does_not_rest() -> None:
    gate = Endpointer(EndpointingOptions(0.5, 500, 300))
    gate.push(np.zeros(40 * VAD_FRAME, np.int16), [0.9] * 40)
    assert gate.resting_at is None


async def test_in_a_hurry_what_is_held_is_cut_and_waited_for_briefly() -> None:
    open_sessions = [2, 1, 0]
    drain = Drain(lambda: 2, notice_seconds=60, deadline=60, cut=lambda: open_sessions.pop(0))
    await with_timeout(30, drain.hurry(), "cutting")
    assert not open_sessions


async def test_in_a_hurry_nobody_waits_long_for_what_does_not_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.process.draining._CUT_SECONDS", 0.0)
    await with_timeout(30, Drain(lambda: 2, 60, 60, cut=lambda: 2).hurry(), "cutting")
    assert "still held after 0 s: 2" in caplog.text
