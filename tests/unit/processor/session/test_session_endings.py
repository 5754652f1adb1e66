"""The ends of a session's segments, the cost of silence, and a full session."""

from __future__ import annotations

import asyncio

import pytest

from auricle.core.errors import Overloaded
from auricle.load.fairness import slot_preempted
from auricle.processor import pools
from auricle.protocol.sessions import (
    Boundary,
    Failed,
    HandedOver,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionReady,
)
from tests.fakes.workers import GRID, PROMPT, ScriptedWorkers, counting, ids, noise, session

pytestmark = pytest.mark.unit


async def test_the_end_of_a_segment_carries_its_text_over_as_context() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(4 * 16_000), 1.0, "endpoint")
    await subject.push(5 * 16_000, noise(3 * 16_000), 1.0, "endpoint")
    subject.end(10 * 16_000)
    *finals, done = [e async for e in events if isinstance(e, SegmentFinal | SessionDone)]
    assert [(f.segment, f.start_ms, f.end_ms) for f in finals] == [(0, 0, 4_000), (1, 5_000, 8_000)]
    head = PROMPT._tokenizer.decode(workers.decodes[-1].head, skip_special_tokens=False)
    assert finals[0].text in head
    assert done.usage.audio_ms == 10_000


async def test_a_hypothesis_is_the_next_draft_and_its_language_the_next_segments() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    data = noise(6 * GRID)
    for number in range(3):
        end = 2 * (number + 1) * GRID
        await subject.push(2 * number * GRID, data[4 * number * GRID : 2 * end], 1.0)
        await anext(events)
    await subject.push(6 * GRID, b"", 1.0, "endpoint")
    await anext(events)
    await subject.push(8 * GRID, noise(GRID), 1.0)
    await anext(events)
    first, second, *_, last = workers.decodes
    assert first.draft == ()
    assert second.draft == ids(counting(first))
    assert last.draft == ids("language English<asr_text>")
    await events.aclose()


async def test_silence_between_speech_is_neither_encoded_nor_decoded() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(16_000), 1.0, "endpoint")
    await subject.push(600 * 16_000, noise(16_000), 1.0, "endpoint")
    subject.end(1_200 * 16_000)
    kinds = [type(e) async for e in events]
    assert kinds == [SegmentFinal, SegmentFinal, SessionDone]
    assert len(workers.decodes) == 2
    assert sum(w.frames for r in workers.encodes for w in r.windows) == 2 * 100


async def test_a_session_of_silence_has_no_text_and_costs_nothing() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    subject.end(60 * 16_000)
    (done,) = [e async for e in events]
    assert isinstance(done, SessionDone)
    assert done.usage.audio_ms == 60_000
    assert workers.encodes == workers.decodes == []


async def test_a_long_segment_ends_at_a_pause_and_the_end_of_speech_there_adds_nothing() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers, pause_after_seconds=4, max_segment_seconds=20)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(3 * 16_000), 1.0, "pause")
    await subject.push(3 * 16_000, noise(2 * 16_000, seed=1), 1.0, "pause")
    await subject.push(5 * 16_000, b"", 1.0, "endpoint")
    subject.end(9 * 16_000)
    finals = [e async for e in events if isinstance(e, SegmentFinal)]
    assert [(f.start_ms, f.end_ms) for f in finals] == [(0, 5_000)]


async def test_at_the_cap_a_segment_may_end_before_its_last_decode() -> None:
    workers = ScriptedWorkers(lambda request: "language English<asr_text>")
    subject = session(workers, pause_after_seconds=4, max_segment_seconds=4)
    events = subject.events()
    await anext(events)
    quiet_at_two_seconds = noise(2 * 16_000) + bytes(2 * 4_000) + noise(16_000)
    await subject.push(0, quiet_at_two_seconds, 1.0)
    partial = await anext(events)
    assert isinstance(partial, SegmentPartial)
    await subject.push(3 * 16_000 + 4_000, noise(16_000, seed=1), 1.0)
    final = await anext(events)
    assert isinstance(final, SegmentFinal)
    assert 2_000 <= final.end_ms <= 2_250 < partial.audio_ms
    await events.aclose()


@pytest.mark.parametrize("boundary", ["endpoint", "pause"])
async def test_a_final_aborts_the_partial_of_its_own_session(boundary: Boundary) -> None:
    """This holds for each end of a segment: the end of speech, or a pause in a long segment."""
    workers = ScriptedWorkers(counting)
    workers.hold = asyncio.Event()
    subject = session(workers, pause_after_seconds=2 * GRID / 16_000)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(2 * GRID), 1.0)
    following = asyncio.ensure_future(anext(events))
    await workers.asked.wait()
    assert not workers.decodes[0].final
    await subject.push(2 * GRID, noise(1_000), 1.0, boundary)
    event = await following  # although the partial never answers
    assert isinstance(event, SegmentFinal)
    assert event.end_ms == (2 * GRID + 1_000) * 1000 // 16_000
    assert subject.usage.report(0).decodes_skipped == 1
    await events.aclose()


async def test_a_pause_in_a_short_segment_aborts_no_partial() -> None:
    workers = ScriptedWorkers(counting)
    workers.hold = asyncio.Event()
    subject = session(workers, pause_after_seconds=4 * GRID / 16_000)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(2 * GRID), 1.0)
    following = asyncio.ensure_future(anext(events))
    await workers.asked.wait()
    await subject.push(2 * GRID, noise(1_000), 1.0, "pause")
    workers.hold.set()
    assert isinstance(await following, SegmentPartial)
    await events.aclose()


async def test_a_final_does_not_wait_for_audio_that_is_encoded_ahead() -> None:
    workers = ScriptedWorkers(counting)
    workers.hold = asyncio.Event()
    subject = session(workers, chunk_ms=2_000)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(16_100), 1.0)
    following = asyncio.ensure_future(anext(events))
    await workers.asked_to_encode.wait()
    assert workers.encodes[0].ahead
    await subject.push(16_100, noise(1_000), 1.0, "endpoint")
    assert isinstance(await following, SegmentFinal)  # although the worker never answers
    assert subject.usage.report(0).decodes_skipped == 0
    await events.aclose()


async def test_a_partial_that_finds_no_room_is_skipped_and_the_cadence_stretches() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [Overloaded("all slots are in use")]
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID), 1.0)
    following = asyncio.ensure_future(anext(events))
    await workers.asked.wait()
    await subject.push(GRID, noise(4 * GRID), 1.0)
    event = await following
    assert isinstance(event, SegmentPartial)
    assert event.audio_ms == 5 * 640
    assert [d.final for d in workers.decodes] == [False, False]
    await events.aclose()


async def test_a_final_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_BACK_OFF_SECONDS", (0.0,))
    workers = ScriptedWorkers(counting)
    workers.faults = [Overloaded("all slots are in use")] * 5
    subject = session(workers)
    subject.recognizer._pd_pool._deadline = 60.0
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID // 2), 1.0, "endpoint")
    assert isinstance(await anext(events), SegmentFinal)
    await events.aclose()


async def test_a_session_is_handed_over_after_the_decode_under_way_and_where_it_then_is() -> None:
    workers = ScriptedWorkers(counting)
    workers.hold = asyncio.Event()
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(4 * GRID), 1.0)
    decoding = asyncio.ensure_future(anext(events))
    await workers.asked.wait()
    subject.hand_over()
    workers.hold.set()
    partial = await decoding
    assert isinstance(partial, SegmentPartial)
    handed = await anext(events)
    assert handed == HandedOver(partial.resume)
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_silent_session_is_handed_over_at_once() -> None:
    subject = session(ScriptedWorkers(counting))
    events = subject.events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    subject.hand_over()
    assert isinstance(await waiting, HandedOver)
    await events.aclose()


async def test_a_session_whose_audio_has_ended_is_finished_rather_than_handed_over() -> None:
    subject = session(ScriptedWorkers(counting))
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(2 * GRID), 1.0)
    subject.end(2 * GRID)
    subject.hand_over()
    kinds = [type(event) async for event in events]
    assert kinds == [SegmentFinal, SessionDone]


async def test_a_silent_session_whose_place_another_client_gets_ends_with_the_reason() -> None:
    subject = session(ScriptedWorkers(counting))
    async with asyncio.timeout(60):
        events = subject.events()
        assert isinstance(await anext(events), SessionReady)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        subject.fail(slot_preempted())
        ended = await waiting
        assert isinstance(ended, Failed)
        assert (ended.code, ended.message) == ("overloaded", str(slot_preempted()))
        assert [event async for event in events] == []
