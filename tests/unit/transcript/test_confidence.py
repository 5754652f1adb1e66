"""The model's confidence in words: from their tokens, as the decodes of a session have them."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise

import pytest

from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial
from auricle.transcript.confidence import of_text, of_words
from tests.fakes.workers import GRID, ScriptedWorkers, counting, feed, ids, noise, session

pytestmark = pytest.mark.unit
LIKELY, UNLIKELY = math.log(0.9), math.log(0.4)


def test_a_word_is_as_sure_as_its_least_probable_token() -> None:
    tokens = [(b"ten", LIKELY), (b" gre", UNLIKELY), (b"en", LIKELY)]
    assert of_words(["ten ", "green"], tokens) == (0.9, 0.4)


def test_what_is_around_a_word_does_not_count() -> None:
    tokens = [(b"Ten", LIKELY), (b",", UNLIKELY), (b" it", LIKELY), (b"'", UNLIKELY), (b"s", 0.0)]
    assert of_words(["Ten, ", "it's"], tokens) == (0.9, 0.4)


def test_characters_may_be_cut_into_tokens() -> None:
    said = "größe".encode()
    tokens = [(said[:3], LIKELY), (said[3:6], UNLIKELY), (said[6:], LIKELY), (b" x", LIKELY)]
    assert of_words(["größe ", "x"], tokens) == (0.4, 0.9)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([(b"ten", None), (b" green", LIKELY)], (None, 0.9)),  # committed by another processor
        ([(b"ten", LIKELY), (b" red", LIKELY)], (None, None)),  # tokens of another text
        ([], (None, None)),
        (
            [(b"ten", LIKELY), (b" green", LIKELY), (b"\xe2", LIKELY)],
            (0.9, 0.9),
        ),  # more tokens follow
    ],
)
def test_what_is_not_known_is_none(
    tokens: list[tuple[bytes, float | None]], expected: tuple[float | None, ...]
) -> None:
    assert of_words(["ten ", "green"], tokens) == expected


def test_a_text_is_as_sure_as_its_words_on_average() -> None:
    assert of_text([0.9, 0.4]) == 0.65
    assert of_text([0.9, None]) is None
    assert of_text([]) is None


@pytest.mark.parametrize("asked", [False, True])
async def test_partials_and_finals_have_words_if_asked_for(asked: bool) -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers, grid_words=asked), 12 * GRID)
    told = [event for event in events if isinstance(event, SegmentPartial | SegmentFinal)]
    assert len(told) > 5
    assert [decode.logprobs for decode in workers.decodes] == [asked] * len(workers.decodes)
    for event in told:
        text = event.text if isinstance(event, SegmentFinal) else event.committed + event.partial
        assert "".join(word.text for word in event.words) == (text if asked else "")
        times = [time for word in event.words for time in (word.start_ms, word.end_ms)]
        assert all(before <= after for before, after in pairwise(times))
        # See `ScriptedWorkers`: tokens of a later decode are less probable.
        sure = [word.confidence or 0.0 for word in event.words]
        assert sure == sorted(sure, reverse=True)
    final = told[-1]
    assert isinstance(final, SegmentFinal) and not final.tokens
    # Each word was there in the decode after its second.
    assert [word.end_ms <= 640 * (2 * at + 3) for at, word in enumerate(final.words)] == (
        [True] * len(final.words)
    )


async def test_words_that_another_processor_committed_have_times_and_no_confidence() -> None:
    tokens = ids("language English<asr_text>one two")
    resume = ResumePoint(committed_tokens=tokens, committed_before=2 * GRID)
    workers = ScriptedWorkers(counting)
    subject = session(workers, resume, grid_words=True)
    await subject.push(0, noise(8 * GRID), 1.0)
    subject.end(8 * GRID)
    async with asyncio.timeout(60):
        [final] = [event async for event in subject.events() if isinstance(event, SegmentFinal)]
    known = [word.confidence is not None for word in final.words]
    assert len(known) > 3 and known == [False, False] + [True] * (len(known) - 2)
    assert all(word.end_ms <= 2 * 640 for word in final.words[:2])
