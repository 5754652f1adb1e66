"""Answers in which the model repeats itself are dropped, unless the guard is disabled."""

from __future__ import annotations

import pytest

from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from tests.fakes.workers import GRID, ScriptedWorkers, noise, session

pytestmark = pytest.mark.unit


def repeating(_request: DecodeRequest) -> str:
    return "language English<asr_text>" + " the dog" * 24


async def texts(loop_guard: bool) -> list[SegmentPartial | SegmentFinal]:
    subject = session(ScriptedWorkers(repeating), loop_guard=loop_guard)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(3 * GRID), 1.0)
    subject.end(3 * GRID)
    return [event async for event in events if isinstance(event, SegmentPartial | SegmentFinal)]


async def test_a_loop_is_neither_shown_nor_in_the_final_text() -> None:
    (final,) = await texts(loop_guard=True)
    assert isinstance(final, SegmentFinal)
    assert final.text.count("the dog") == 1


async def test_without_the_guard_all_of_it_is_text() -> None:
    found = await texts(loop_guard=False)
    assert isinstance(found[-1], SegmentFinal)
    assert found[-1].text.count("the dog") == 24
