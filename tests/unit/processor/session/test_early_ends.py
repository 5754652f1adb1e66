"""Answers that end before their audio: the segment is cut at a pause and decoded again."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from tests.fakes.workers import ScriptedWorkers, feed, noise, session

pytestmark = pytest.mark.unit
SECONDS = 20
PAUSE = 9  # s, where the audio is quiet
TAG = "language English<asr_text>"


def audio() -> bytes:
    samples = np.frombuffer(noise(SECONDS * SAMPLE_RATE), "<i2").copy()
    samples[PAUSE * SAMPLE_RATE : PAUSE * SAMPLE_RATE + SAMPLE_RATE // 2] //= 100
    return samples.tobytes()


def seconds(request: DecodeRequest) -> float:
    return sum(window.length for window in request.windows) / 13


async def finals(workers: ScriptedWorkers) -> list[SegmentFinal]:
    subject = session(workers, partials=False, min_tokens_per_second=1)
    events, data = subject.events(), audio()
    await anext(events)
    await subject.push(0, data, 1.0)
    subject.end(len(data) // 2)
    return [event async for event in events if isinstance(event, SegmentFinal)]


async def test_a_segment_whose_answer_ended_early_is_cut_at_its_pause() -> None:
    def says(request: DecodeRequest) -> str:
        return TAG + "the dog is here and there " * (1 if seconds(request) > 15 else 3)

    found = await finals(ScriptedWorkers(says))
    assert [final.text.count("dog") for final in found] == [3, 3]
    assert [final.segment for final in found] == [0, 1]
    first, second = found
    assert PAUSE * 1000 <= first.end_ms == second.start_ms <= PAUSE * 1000 + 500
    assert (first.start_ms, second.end_ms) == (0, SECONDS * 1000)


async def test_few_words_may_be_invented_and_are_not_asked_for_again() -> None:
    workers = ScriptedWorkers(lambda _: TAG + "the dog")
    (final,) = await finals(workers)
    assert (final.text, len(workers.decodes)) == ("the dog", 1)


async def test_parts_that_cannot_be_cut_again_keep_their_answer() -> None:
    found = await finals(ScriptedWorkers(lambda _: TAG + "the dog is here and there now"))
    assert {final.text for final in found} == {"the dog is here and there now"}
    assert [a.end_ms for a in found[:-1]] == [b.start_ms for b in found[1:]]
    assert (found[0].start_ms, found[-1].end_ms) == (0, SECONDS * 1000)


async def test_no_cut_is_in_committed_text() -> None:
    def says(request: DecodeRequest) -> str:
        return TAG + "dog " * (1 if request.final else min(8, int(0.8 * seconds(request))))

    subject = session(ScriptedWorkers(says), min_tokens_per_second=1)
    events = await feed(subject, SECONDS * SAMPLE_RATE)
    partials = [event for event in events if isinstance(event, SegmentPartial)]
    found = {event.segment: event for event in events if isinstance(event, SegmentFinal)}
    assert len(found) > 1 and any(partial.resume.committed_before for partial in partials)
    for partial in partials:
        assert found[partial.segment].text.startswith(partial.committed)
        resume = partial.resume
        spoken = resume.segment_start + resume.committed_before
        assert found[partial.segment].end_ms * SAMPLE_RATE / 1000 >= spoken
