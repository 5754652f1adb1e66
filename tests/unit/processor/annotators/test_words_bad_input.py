"""Segments that cannot be aligned: text continues, and missing words are reported.

The sessions are real; only the workers are scripted.
"""

from __future__ import annotations

import asyncio

import pytest

from auricle.core.errors import BadRequest
from auricle.load.meters import DemandMeter
from auricle.processor.annotators.annotator import AnnotationRules
from auricle.processor.annotators.words import FinalSegment, SessionWords
from auricle.protocol.recognition import DecodeRequest
from auricle.protocol.sessions import OpenSession, SegmentFinal, SegmentWords, SessionEvent
from tests.fakes.workers import GRID, ScriptedWorkers, counting, noise, session

pytestmark = pytest.mark.unit
OPENED = OpenSession("s", "t", None, "", 640, words=True)
SECOND = 16_000


class Aligner:
    """Aligns English of up to ten words, like an align worker with little memory."""

    def aligns(self, language: str) -> bool:
        return language in ("", "English")

    async def starting(self) -> bool:
        return False

    async def times(self, spoken: FinalSegment, _seconds: float) -> tuple[int, ...]:
        if len(spoken.words) > 10:
            raise BadRequest(f"{len(spoken.words)} words exceed AlignWorker.max_tokens")
        return tuple(range(2 * len(spoken.words)))


async def told(workers: ScriptedWorkers, samples: int, **settings: object) -> list[SessionEvent]:
    """All events of a session with words."""
    words = SessionWords(OPENED, AnnotationRules(5.0, 4), Aligner(), DemandMeter())  # type: ignore[arg-type]
    subject = session(workers, words=words, max_buffered_seconds=400, **settings)  # type: ignore[arg-type]
    await subject.push(0, noise(samples), 5.0, "endpoint")
    subject.end(samples)
    async with asyncio.timeout(120):
        return [event async for event in words.merged(subject.events())]


def found(events: list[SessionEvent]) -> tuple[list[SegmentFinal], list[SegmentWords]]:
    finals = [event for event in events if isinstance(event, SegmentFinal)]
    return finals, [event for event in events if isinstance(event, SegmentWords)]


def long_text(request: DecodeRequest) -> str:
    seconds = sum(window.length for window in request.windows) // 13
    bottles = (f"{number} green bottles" for number in range(seconds, 0, -1))
    return "language English<asr_text>" + " ".join(bottles)


async def test_aligned_words_have_confidence_and_finals_no_words_of_their_own() -> None:
    (final,), (words,) = found(await told(ScriptedWorkers(counting), 8 * GRID))
    assert final.text and not final.words and not final.tokens
    assert words.source == "aligned"
    assert all(word.confidence is not None for word in words.words)


async def test_a_language_that_the_aligner_lacks_has_the_times_of_decodes() -> None:
    def thai(request: DecodeRequest) -> str:
        return counting(request).replace("English", "Thai")

    (final,), (words,) = found(await told(ScriptedWorkers(thai), 8 * GRID))
    assert (final.language, words.source, words.missing) == ("Thai", "commit_grid", "language")
    assert "".join(word.text for word in words.words) == final.text
    assert 0 < words.words[-1].end_ms <= final.end_ms
    assert all(word.confidence is not None for word in words.words)


async def test_a_segment_that_is_too_long_for_the_aligner_has_its_text_and_says_so() -> None:
    """300 s in one segment, as with `Processor.max_segment_seconds` of 300."""
    workers, samples = ScriptedWorkers(long_text), 300 * SECOND
    limits = {"pause_after_seconds": 300, "max_segment_seconds": 300, "partials": False}
    finals, missing = found(await told(workers, samples, **limits))
    assert [len(final.text.split()) > 500 for final in finals] == [True] * len(finals)
    assert finals[0].end_ms - finals[0].start_ms > 290_000
    assert [(one.segment, one.source, one.missing) for one in missing] == [
        (final.segment, None, BadRequest.code) for final in finals
    ]


async def test_a_segment_without_text_has_no_words_and_is_not_missing_any() -> None:
    workers = ScriptedWorkers(lambda _: "language None<asr_text>")
    (final,), words = found(await told(workers, 4 * GRID))
    assert (final.text, words) == ("", [])
