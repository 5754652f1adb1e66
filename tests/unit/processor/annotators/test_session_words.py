"""Words arrive after their finals, delay no event, and are reported if they are missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from auricle.core.errors import AuricleError, WorkerUnavailable
from auricle.load.meters import DemandMeter
from auricle.processor.annotators.annotator import AnnotationRules
from auricle.processor.annotators.words import FinalSegment, SessionWords
from auricle.processor.session.open_segment import EndedSegment, OpenSegment
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.sessions import (
    Failed,
    HandedOver,
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionDone,
    SessionEvent,
)
from auricle.protocol.stream import Usage, Word
from tests.fakes.workers import CHECKPOINT

pytestmark = pytest.mark.unit
SECOND = 16_000
OPENED = OpenSession("s", "t", None, "", 640, words=True)
DONE, POINT = SessionDone(Usage()), ResumePoint()


class Aligner:
    """Answers on the test's signal; each word takes 100 ms."""

    def __init__(self) -> None:
        self.asked: list[FinalSegment] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.faults: list[Exception] = []
        self.called = asyncio.Event()
        self.empty = False

    def aligns(self, language: str) -> bool:
        return language in ("", "English")

    async def starting(self) -> bool:
        return self.empty

    async def times(self, spoken: FinalSegment, seconds: float) -> tuple[int, ...]:
        self.asked.append(spoken)
        self.called.set()
        if (gate := self.gates.get(spoken.words[0])) is not None:
            await gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        return tuple(50 * at for at in range(2 * len(spoken.words)))


def final(number: int, text: str, language: str = "English") -> SegmentFinal:
    return SegmentFinal(number, text, 0, 1000, language, POINT)


class Session:
    """Events from a list, which the test can hold back one by one."""

    def __init__(self, aligner: Aligner, at_a_time: int = 4, opened: OpenSession = OPENED) -> None:
        self.meter = DemandMeter()
        self.words = SessionWords(
            *(opened, AnnotationRules(5.0, at_a_time), aligner, self.meter),  # type: ignore[arg-type]
        )
        self.gates: dict[int, asyncio.Event] = {}

    async def _events(self, given: Sequence[SessionEvent]) -> AsyncGenerator[SessionEvent, None]:
        for at, event in enumerate(given):
            if at in self.gates:
                await self.gates[at].wait()
            if isinstance(event, SegmentFinal):
                self.words.ended(EndedSegment(segment(event.segment), SECOND))
            yield event

    def merged(self, *given: SessionEvent) -> AsyncGenerator[SessionEvent, None]:
        return self.words.merged(self._events(given))

    async def all_merged(self, *given: SessionEvent) -> list[SessionEvent]:
        async with asyncio.timeout(120), aclosing(self.merged(*given)) as events:
            return [event async for event in events]


def segment(number: int) -> OpenSegment:
    return OpenSegment(number, 0, CHECKPOINT.geometry, KeyScheme("f", "float32", "t"))


async def test_each_final_is_followed_by_its_words_and_done_waits_for_them() -> None:
    aligner = Aligner()
    aligner.gates = {"one": asyncio.Event(), "two": asyncio.Event()}
    session = Session(aligner)
    events = session.merged(final(0, "one"), final(1, "two"), DONE)
    assert [await anext(events), await anext(events)] == [final(0, "one"), final(1, "two")]
    aligner.gates["two"].set()
    second, rest = await anext(events), asyncio.ensure_future(anext(events))
    assert isinstance(second, SegmentWords) and second.segment == 1
    await asyncio.sleep(0)
    assert not rest.done()
    aligner.gates["one"].set()
    first = await rest
    assert isinstance(first, SegmentWords) and first.segment == 0
    assert [event async for event in events] == [DONE]


async def test_words_do_not_wait_for_the_next_event() -> None:
    session = Session(Aligner())
    session.gates[1] = asyncio.Event()
    partial = SegmentPartial(1, "", "two", 640, "English", POINT)
    events = session.merged(final(0, "one"), partial, DONE)
    assert isinstance(await anext(events), SegmentFinal)
    assert isinstance(await anext(events), SegmentWords)
    session.gates[1].set()
    assert [event async for event in events] == [partial, DONE]


async def test_words_have_the_session_and_what_was_said() -> None:
    aligner = Aligner()
    told = await Session(aligner).all_merged(final(0, "One, two."), DONE)
    (asked,) = aligner.asked
    assert (asked.session, asked.tenant, asked.samples) == ("s", "t", SECOND)
    assert (asked.audio_ms, asked.words) == (1000, ("One", "two"))
    assert isinstance(told[1], SegmentWords)
    assert [word.text for word in told[1].words] == ["One, ", "two."]


@pytest.mark.parametrize(
    ("fault", "code"),
    [(WorkerUnavailable("gone"), "unavailable"), (RuntimeError("a fault"), AuricleError.code)],
)
async def test_what_fails_is_missing_and_the_session_goes_on(fault: Exception, code: str) -> None:
    aligner = Aligner()
    aligner.faults = [fault]
    told = await Session(aligner).all_merged(final(0, "one"), final(1, "two"), DONE)
    found = {event.segment: event for event in told if isinstance(event, SegmentWords)}
    assert found[0] == SegmentWords(0, (), None, code)
    assert found[1].source == "aligned"
    assert told[-1] == DONE


async def test_only_so_many_segments_wait() -> None:
    aligner = Aligner()
    aligner.gates = {"one": asyncio.Event()}
    session = Session(aligner, at_a_time=1)
    events = session.merged(final(0, "one"), final(1, "two"), DONE)
    told = [await anext(events) for _ in range(3)]
    assert told == [final(0, "one"), final(1, "two"), SegmentWords(1, (), None, "overloaded")]
    aligner.gates["one"].set()
    rest = [event async for event in events]
    assert isinstance(rest[0], SegmentWords) and rest[0].source == "aligned"


ROUGH = (Word("ten", "ten ", 0, 160, 0.9), Word("green", "green", 220, 500, 0.6))


async def test_the_models_own_translation_has_the_times_of_decodes() -> None:
    aligner, opened = Aligner(), replace(OPENED, to_english=True)
    events = await Session(aligner, opened=opened).all_merged(final(0, "one"), DONE)
    assert events[1] == SegmentWords(0, (), "commit_grid", "language")
    assert not aligner.asked


async def test_the_aligner_gets_the_text_and_its_language() -> None:
    aligner = Aligner()
    await Session(aligner).all_merged(final(0, "One, two!"), DONE)
    (asked,) = aligner.asked
    assert (asked.words, asked.texts) == (("One", "two"), ("One, ", "two!"))
    assert asked.language == "English"


async def test_a_language_that_the_aligner_lacks_has_the_times_of_decodes() -> None:
    aligner = Aligner()
    told = await Session(aligner).all_merged(
        replace(final(0, "ten green", "Thai"), words=ROUGH), DONE
    )
    rough = SegmentWords(0, ROUGH, "commit_grid", "language")
    assert told == [final(0, "ten green", "Thai"), rough, DONE]
    assert not aligner.asked


async def test_aligned_words_have_the_confidence_of_the_decode() -> None:
    told = await Session(Aligner()).all_merged(replace(final(0, "ten green"), words=ROUGH), DONE)
    aligned = (Word("ten", "ten ", 0, 50, 0.9), Word("green", "green", 100, 150, 0.6))
    assert told == [final(0, "ten green"), SegmentWords(0, aligned, "aligned"), DONE]


async def test_rough_words_stay_with_the_final_of_a_session_that_asked_for_them() -> None:
    session = Session(Aligner(), opened=replace(OPENED, grid_words=True))
    told = await session.all_merged(replace(final(0, "ten green"), words=ROUGH), DONE)
    assert told[0] == replace(final(0, "ten green"), words=ROUGH)


async def test_text_without_words_and_finals_without_text() -> None:
    aligner = Aligner()
    told = await Session(aligner).all_merged(final(0, ""), final(1, "..."), DONE)
    assert told == [final(0, ""), final(1, "..."), SegmentWords(1, (), "aligned"), DONE]
    assert not aligner.asked


async def test_text_of_another_processor_has_no_audio_here() -> None:
    session = Session(Aligner())

    async def events() -> AsyncGenerator[SessionEvent, None]:
        yield final(0, "one")
        yield DONE

    told = [event async for event in session.words.merged(events())]
    assert told == [final(0, "one"), SegmentWords(0, (), None, "no_audio"), DONE]


@pytest.mark.parametrize(
    ("last", "code"),
    [(HandedOver(POINT), "handed_over"), (Failed("internal", "x"), "session_failed")],
)
async def test_a_session_that_leaves_does_not_wait(last: SessionEvent, code: str) -> None:
    aligner = Aligner()
    aligner.gates = {"one": asyncio.Event()}
    told = await Session(aligner).all_merged(final(0, "one"), last)
    assert told == [final(0, "one"), SegmentWords(0, (), None, code), last]


async def test_closing_ends_what_is_under_way() -> None:
    aligner = Aligner()
    aligner.gates = {"one": asyncio.Event()}
    session = Session(aligner)
    session.gates[1] = asyncio.Event()
    events = session.merged(final(0, "one"), DONE)
    await anext(events)
    following = asyncio.ensure_future(anext(events))
    await aligner.called.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await events.aclose()
    left = [task for task in asyncio.all_tasks() if task.get_name() in ("words", "event")]
    assert not left


async def test_nobody_waits_for_a_pool_that_is_being_started_but_it_is_asked_for() -> None:
    aligner = Aligner()
    aligner.empty = True
    session = Session(aligner)
    events = await session.all_merged(final(0, "one"), DONE)
    assert events[1] == SegmentWords(0, missing="starting")
    assert not aligner.asked
    (asked,) = session.meter.take().values()
    assert asked.speech_seconds > 0
