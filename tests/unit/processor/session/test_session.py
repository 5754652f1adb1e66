"""A session's logic with pools that answer from a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from auricle.core.errors import DeadlineExceeded, WindowsMissing, WorkerUnavailable
from auricle.load.chunk_load import ChunkLoad, TimedChunk
from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import (
    Boundary,
    Failed,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionReady,
    WholeAudio,
)
from tests.fakes.workers import (
    GRID,
    PROMPT,
    ScriptedWorkers,
    counting,
    feed,
    ids,
    noise,
    session,
)

pytestmark = pytest.mark.unit


async def test_ready_then_partials_then_final_then_done() -> None:
    events = await feed(session(ScriptedWorkers(counting)), 6 * GRID + 5_000)
    kinds = [type(e) for e in events]
    assert kinds == [SessionReady, *[SegmentPartial] * 6, SegmentFinal, SessionDone]


async def test_committed_grows_and_is_the_prefix_of_the_next_decode() -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers), 9 * GRID)
    committed = ""
    for event in events:
        if isinstance(event, SegmentPartial):
            assert event.committed.startswith(committed)
            committed = event.committed
        elif isinstance(event, SegmentFinal):
            assert event.text.startswith(committed)
    assert committed
    forced = [len(d.tail) for d in workers.decodes]
    assert forced == sorted(forced)
    assert forced[0] == forced[1] == len(PROMPT.tail(None))


async def test_only_the_growing_window_is_encoded_again() -> None:
    workers = ScriptedWorkers(counting)
    await feed(session(workers), 30 * GRID)
    sent = [len(r.windows) for r in workers.encodes]
    assert set(sent) == {1, 2}
    assert sent.count(2) == 2  # 19.2 s: two windows were finished
    assert all(r.windows[0].supersedes for r in workers.encodes[1:] if len(r.windows) == 1)


async def test_seconds_finished_between_two_decodes_are_encoded_ahead() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers, chunk_ms=2_000)
    events, data = subject.events(), noise(33_000)
    await anext(events)
    following = asyncio.ensure_future(anext(events))
    await subject.push(0, data[: 2 * 16_100], 1.0)
    await workers.asked_to_encode.wait()
    await subject.push(16_100, data[2 * 16_100 :], 1.0)
    assert isinstance(await following, SegmentPartial)
    await events.aclose()
    ahead, decode = workers.encodes[0], workers.encodes[1]
    assert [r.ahead for r in (ahead, decode)] == [True, False]
    (finished,) = ahead.windows[0].blocks
    assert finished.final and finished.log_mel is not None
    first, second = decode.windows[0].blocks
    assert first.key == finished.key and first.log_mel is None
    assert second.log_mel is not None


async def test_at_a_short_cadence_nothing_is_encoded_ahead() -> None:
    workers = ScriptedWorkers(counting)
    await feed(session(workers), 6 * GRID)
    assert not any(request.ahead for request in workers.encodes)


async def test_a_grid_point_passed_during_a_decode_is_skipped() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID), 1.0)
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await subject.push(GRID, noise(4 * GRID), 1.0)
    await first
    second = await anext(events)
    assert isinstance(second, SegmentPartial)
    assert second.audio_ms == 5 * 640
    await events.aclose()


async def test_a_dead_pd_worker_is_left_for_another() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [WorkerUnavailable("Unavailable: gone")]
    events = await feed(session(workers), 2 * GRID)
    assert isinstance(events[-1], SessionDone)
    assert workers.used[0] != workers.used[1]


async def test_what_a_dead_worker_cost_is_not_taken_for_load() -> None:
    workers, load = ScriptedWorkers(counting), ChunkLoad(60.0)
    workers.faults = [WorkerUnavailable("gone")]
    counted: list[bool] = []
    real = load.chunk

    @contextmanager
    def chunk(arrived: float, due: float) -> Iterator[TimedChunk]:
        with real(arrived, due) as one:
            yield one
        counted.append(one.counts)

    load.chunk = chunk  # type: ignore[method-assign]
    await feed(session(workers, load=load), 3 * GRID)
    assert counted == [False, True, True]


async def test_a_silent_pd_worker_is_left_for_another() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [DeadlineExceeded("DecodeRequest took longer than 60 s")]
    events = await feed(session(workers), 2 * GRID)
    assert isinstance(events[-1], SessionDone)
    assert workers.used[0] != workers.used[1]


async def test_lost_windows_are_encoded_again() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers)
    events = await feed(subject, 20 * GRID)
    assert isinstance(events[-1], SessionDone)
    encodes = len(workers.encodes)
    again = session(workers)
    stream = again.events()
    await anext(stream)
    await again.push(0, noise(14 * GRID), 1.0)
    await anext(stream)
    first = workers.decodes[-1].windows[0].key
    workers.faults = [WindowsMissing((first,), "evicted")]
    await again.push(14 * GRID, noise(GRID, seed=1), 1.0)
    await anext(stream)
    assert first in [w.key for w in workers.encodes[-1].windows]
    assert len(workers.encodes) > encodes
    await stream.aclose()


async def test_when_every_try_fails_the_session_says_why() -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [WorkerUnavailable("Unavailable: gone")] * 3
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID), 1.0)
    failed = await anext(events)
    assert failed == Failed("unavailable", "Unavailable: gone")
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_session_goes_on_elsewhere_from_its_resume_point() -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers), 9 * GRID)
    last = [e for e in events if isinstance(e, SegmentPartial)][-1]
    resumed = session(workers, resume=last.resume)
    stream = resumed.events()
    await anext(stream)
    await resumed.push(0, noise(10 * GRID), 1.0)
    event = await anext(stream)
    assert isinstance(event, SegmentPartial)
    assert event.committed.startswith(last.committed)
    await stream.aclose()


@pytest.mark.parametrize("boundary", ["none", "endpoint"])
@pytest.mark.parametrize("samples", [0, 200, 1_599])
async def test_a_client_that_resumes_with_hardly_any_audio_gets_the_text_it_knows(
    samples: int, boundary: Boundary
) -> None:
    workers = ScriptedWorkers(counting)
    point = ResumePoint(2, GRID, ids("language English<asr_text>one two"), "", 4 * GRID)
    subject = session(workers, resume=point)
    await subject.push(GRID, noise(samples), 1.0, boundary)
    subject.end(GRID + samples)
    events = [event async for event in subject.events()]
    assert [type(event) for event in events] == [SessionReady, SegmentFinal, SessionDone]
    assert isinstance(events[1], SegmentFinal)
    assert (events[1].segment, events[1].text) == (2, "one two")
    assert workers.decodes == []


async def test_without_partials_a_segment_is_decoded_once() -> None:
    workers = ScriptedWorkers(counting)
    subject = session(workers, partials=False)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(9 * GRID), 1.0)
    subject.end(9 * GRID)
    kinds = [type(e) async for e in events]
    assert kinds == [SegmentFinal, SessionDone]
    assert len(workers.decodes) == 1


async def test_audio_that_comes_with_the_opening_is_decoded_as_if_it_was_pushed() -> None:
    """A recording's part is already complete: calls that push it would only add cost."""
    start, count = 5_000, 9 * GRID
    end = start + count
    resume = ResumePoint(segment_start=start)
    pushed, opened = ScriptedWorkers(counting), ScriptedWorkers(counting)

    subject = session(pushed, resume, partials=False)
    events = subject.events()
    ready = await anext(events)
    await subject.push(start, noise(count), 1.0, "endpoint")
    subject.end(end)
    rest = [event async for event in events]

    whole = WholeAudio(start, noise(count), "endpoint", end)
    found = [e async for e in session(opened, resume, partials=False, whole=whole).events()]
    assert isinstance(found[0], SessionReady)
    assert isinstance(ready, SessionReady)
    assert (ready.whole, found[0].whole) == (False, True)
    assert found[1:] == rest

    def asked(workers: ScriptedWorkers) -> list[tuple[object, ...]]:
        return [_asked(request) for request in workers.decodes]

    assert asked(opened) == asked(pushed)


def _asked(request: DecodeRequest) -> tuple[object, ...]:
    return request.head, request.windows, request.tail, request.max_tokens, request.final


async def test_held_words_are_not_in_partials_but_in_the_final() -> None:
    """The words that are held are those that a session without the setting sends too."""
    plain = await feed(session(ScriptedWorkers(counting)), 9 * GRID)
    held = await feed(session(ScriptedWorkers(counting), held_words=2), 9 * GRID)
    texts = [
        [event.committed + event.partial for event in events if isinstance(event, SegmentPartial)]
        for events in (plain, held)
    ]
    for number, (before, after) in enumerate(zip(*texts, strict=True)):
        # The first decode of a segment commits nothing, and shows nothing.
        assert after.split() == ([] if number == 0 else before.split()[:-2])
    finals = [
        [event.text for event in events if isinstance(event, SegmentFinal)]
        for events in (plain, held)
    ]
    assert finals[0] == finals[1]
