"""The steps of a session's chunks, which a processor records while an operator watches them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.load.report_cache import WorkerLoads
from auricle.load.reports import WorkerLoad
from auricle.processor.driver import SessionDriver, StepLog
from auricle.processor.service import MAX_SESSIONS, Viewed
from auricle.processor.session.actions import Decode, DecodeTask
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeReply
from auricle.protocol.views import STEPS_KEPT_SECONDS, AskView
from tests.fakes.clock import Clock
from tests.fakes.workers import GRID, ScriptedWorkers, counting, noise, session

pytestmark = pytest.mark.unit
REPLY = DecodeReply((1, 2), "stop", 30, 20, 4_096, read_seconds=0.25)


def decode(arrived: float, *, final: bool = False) -> Decode:
    task = DecodeTask((), (), 10, final=final)
    return Decode(GRID, task, segment=3, audio_ms=1_280, arrived=arrived, due=arrived)


class Watched:
    """A session's log with a clock that the test sets."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.usage = UsageMeter(clock=self.clock)
        self.log = StepLog(self.usage, self.clock)

    def step(self, name: str, seconds: float) -> None:
        with self.usage.timed(name):
            self.clock.now += seconds

    def decoded(self, arrived: float) -> None:
        with self.log.chunk(decode(arrived)):
            self.step("mel", 0.5)
            self.step("encode", 1.0)
            self.clock.now += 0.125  # before another attempt
            self.step("decode", 2.0)
            self.usage.decoded(REPLY)
            self.usage.placed("e", "d")


def test_the_steps_of_a_chunk_are_what_its_time_went_into() -> None:
    one = Watched()
    assert one.log.watch() == ()
    one.decoded(arrived=one.clock.now - 4.0)
    (chunk,) = one.log.watch()
    steps = (chunk.wait, chunk.mel, chunk.encode, chunk.read, chunk.decode, chunk.rest)
    assert steps == (4.0, 0.5, 1.0, 0.25, 1.75, 0.125)
    assert chunk.whole == sum(steps) == one.log.last_seconds
    assert (chunk.segment, chunk.audio_seconds, chunk.final, chunk.skipped) == (
        3,
        1.28,
        False,
        False,
    )
    assert (chunk.prompt_tokens, chunk.cached_tokens, chunk.output_tokens) == (30, 20, 2)
    assert (chunk.bytes_read, chunk.encode_worker, chunk.pd_worker) == (4_096, "e", "d")


def test_nothing_is_kept_when_nobody_looks() -> None:
    one = Watched()
    one.decoded(one.clock.now)
    assert not one.log._chunks and one.log.watch() == ()
    one.decoded(one.clock.now)
    assert len(one.log.watch()) == 1
    one.clock.now += STEPS_KEPT_SECONDS
    one.decoded(one.clock.now)
    assert one.log.watch() == ()


def test_no_more_than_the_last_chunks_are_kept() -> None:
    one = Watched()
    for at in range(100):
        one.log.watch()
        with one.log.chunk(decode(one.clock.now - at)):
            one.usage.decoded(REPLY)
    kept = one.log.watch()
    assert [round(chunk.whole) for chunk in kept] == list(range(60, 100))


def test_a_chunk_that_was_given_up_is_said_to_be() -> None:
    one = Watched()
    one.log.watch()
    with pytest.raises(asyncio.CancelledError), one.log.chunk(decode(one.clock.now)):
        one.step("encode", 1.0)
        raise asyncio.CancelledError
    (chunk,) = one.log.watch()
    assert (chunk.skipped, chunk.encode, chunk.pd_worker) == (True, 1.0, "")
    assert one.log.last_seconds == 0.0


def viewed(sessions: dict[str, SessionDriver], *pools: WorkerLoads) -> Viewed:
    admission = SimpleNamespace(waiting=2.5, limit=7)
    load = SimpleNamespace(seconds=0.125)
    return Viewed(sessions, cast(Any, admission), cast(Any, load), pools)


async def test_a_session_is_shown_without_what_was_said() -> None:
    driver = session(ScriptedWorkers(counting))
    view = viewed({"sess_a": driver}).view(AskView(("sess_a", "gone")))
    (state,) = view.sessions
    assert (state.session, state.tenant, state.decodes, state.pd_worker) == ("sess_a", "t", 0, "")
    await driver.push(0, noise(2 * GRID), 1.0)
    (state,) = viewed({"sess_a": driver}).view(AskView()).sessions
    assert state.audio_seconds == 1.28
    driver.end(2 * GRID)
    _ = [event async for event in driver.events()]
    view = viewed({"sess_a": driver}).view(AskView(("sess_a",)))
    (state,), (steps,) = view.sessions, view.steps
    assert (view.waiting, view.limit, view.chunk_seconds) == (2.5, 7, 0.125)
    assert steps.session == "sess_a" and state.decodes == len(steps.chunks) >= 1
    assert state.chunk_seconds == steps.chunks[-1].whole > 0
    assert steps.chunks[-1].final and {c.pd_worker for c in steps.chunks} <= {"1", "2"}
    assert all(c.mel > 0 and c.decode > 0 and c.wait >= 0 for c in steps.chunks)


async def test_a_session_that_is_asked_for_is_not_left_out() -> None:
    driver = session(ScriptedWorkers(counting))
    names = [f"s{n}" for n in range(MAX_SESSIONS + 5)]
    view = viewed(dict.fromkeys(names, driver)).view(AskView((names[-1],)))
    assert (len(view.sessions), view.others) == (MAX_SESSIONS, 5)
    assert names[-1] in {state.session for state in view.sessions}


def test_workers_are_shown_as_they_last_reported() -> None:
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(
        WorkerLoad("pd_worker", 255, 5.0, {}, 0.5, 2.0, 0.0, 0.1, 0.01, 3.0, 32, kv_usage=0.25)
    )
    clock.now += 4.0
    (worker,) = viewed({}, loads).view(AskView()).workers
    assert (worker.component, worker.instance, worker.age_seconds) == ("pd_worker", "ff", 4.0)
    assert (worker.slots_used, worker.slots, worker.kv_usage) == (3.0, 32, 0.25)
