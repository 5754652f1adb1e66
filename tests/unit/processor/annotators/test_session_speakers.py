"""Speakers arrive after their finals, delay nothing, and move along with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pytest
from msgspec.structs import replace

from auricle.audio.features import FeaturePacket
from auricle.core.errors import AuricleError, WorkerUnavailable
from auricle.load.meters import DemandMeter
from auricle.processor.annotators.speakers import SessionSpeakers, SpeakerRules
from auricle.processor.session.open_segment import EndedSegment, OpenSegment
from auricle.processor.session.stability import Stability
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.annotation import DiarizeReply, DiarizeRequest, SegmentSpeakers, SpeakerTurn
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
from auricle.protocol.stream import SpeakerPart, Usage, Word
from tests.fakes.workers import CHECKPOINT, PROMPT, ids

pytestmark = pytest.mark.unit
SECOND = 16_000
OPENED = OpenSession("s", "t", None, "", 640, diarize=True)
DONE, POINT = SessionDone(Usage()), ResumePoint()


class Diarizer:
    """Answers on the test's signal, with one turn per segment; the state counts the segments."""

    def __init__(self) -> None:
        self.asked: list[DiarizeRequest] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.faults: list[Exception | None] = []
        self.called = asyncio.Event()
        self.empty = False

    async def starting(self) -> bool:
        return self.empty

    async def ask(
        self, request: DiarizeRequest, _reply: object, seconds: float, _what: str
    ) -> DiarizeReply:
        self.asked.append(request)
        self.called.set()
        if (gate := self.gates.get(len(self.asked) - 1)) is not None:
            await gate.wait()
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        count = len(request.state) + 1
        return DiarizeReply((SpeakerTurn(count, 0, len(request.pcm) // 2),), b"+" * count)


def final(number: int, text: str = "one") -> SegmentFinal:
    return SegmentFinal(number, text, 0, 1000, "English", POINT)


def segment(number: int, text: str = "") -> OpenSegment:
    opened = OpenSegment(
        *(number, number * SECOND, CHECKPOINT.geometry, KeyScheme("f", "float32", "t")),
        Stability(ids(text), ids(text), (SECOND // 2,) * len(ids(text))),
    )
    opened.audio.push(np.ones(SECOND, np.int16))
    return opened


class Session:
    """Events from a list, which the test can hold back one by one."""

    def __init__(self, diarizer: Diarizer, opened: OpenSession = OPENED) -> None:
        self.speakers = SessionSpeakers(
            *(opened, SpeakerRules(5.0, 4, 8), diarizer, PROMPT, None, DemandMeter())  # type: ignore[arg-type]
        )
        self.gates: dict[int, asyncio.Event] = {}

    async def _events(self, given: Sequence[SessionEvent]) -> AsyncGenerator[SessionEvent, None]:
        for at, event in enumerate(given):
            if at in self.gates:
                await self.gates[at].wait()
            if isinstance(event, SegmentFinal):
                self.speakers.ended(EndedSegment(segment(event.segment), SECOND))
            yield event

    def merged(self, *given: SessionEvent) -> AsyncGenerator[SessionEvent, None]:
        return self.speakers.merged(self._events(given))

    async def all_merged(self, *given: SessionEvent) -> list[SessionEvent]:
        async with asyncio.timeout(120), aclosing(self.merged(*given)) as events:
            return [event async for event in events]


def speakers(events: Sequence[SessionEvent]) -> list[SegmentSpeakers]:
    return [event for event in events if isinstance(event, SegmentSpeakers)]


@pytest.mark.parametrize(("requested", "most"), [(None, 8), (2, 2), (16, 8)])
async def test_a_session_may_request_fewer_speakers(requested: int | None, most: int) -> None:
    diarizer = Diarizer()
    await Session(diarizer, replace(OPENED, max_speakers=requested)).all_merged(final(0), DONE)
    assert [request.max_speakers for request in diarizer.asked] == [most]


async def test_each_final_is_followed_by_its_speakers_and_done_waits_for_them() -> None:
    told = await Session(Diarizer()).all_merged(final(0), final(1), DONE)
    assert told[-1] == DONE
    assert speakers(told) == [
        SegmentSpeakers(0, (SpeakerPart(1, 0, 1000, "one"),), "commit_grid", state=b"+"),
        SegmentSpeakers(1, (SpeakerPart(2, 1000, 2000, "one"),), "commit_grid", state=b"++"),
    ]


async def test_segments_are_diarized_in_order_with_the_state_after_the_one_before() -> None:
    diarizer = Diarizer()
    diarizer.gates = {0: asyncio.Event()}
    events = Session(diarizer).merged(final(0), final(1), DONE)
    assert [type(await anext(events)) for _ in range(2)] == [SegmentFinal, SegmentFinal]
    await diarizer.called.wait()
    assert len(diarizer.asked) == 1
    diarizer.gates[0].set()
    rest = [event async for event in events]
    assert [one.segment for one in speakers(rest)] == [0, 1]
    assert [one.state for one in diarizer.asked] == [b"", b"+"]
    assert (diarizer.asked[0].session, diarizer.asked[0].tenant) == ("s", "t")
    assert diarizer.asked[0].pcm == b"\x01\x00" * SECOND


async def test_what_is_told_after_has_the_state_to_resume_with() -> None:
    session = Session(Diarizer(), opened=replace(OPENED, resume=ResumePoint(speakers=b"+")))
    session.gates[1] = asyncio.Event()
    events = session.merged(
        final(0), SegmentPartial(1, "", "two", 640, "English", POINT), HandedOver(POINT)
    )
    first = await anext(events)
    assert isinstance(first, SegmentFinal) and first.resume.speakers == b"+"
    told = await anext(events)
    assert isinstance(told, SegmentSpeakers) and told.state == b"++"
    session.gates[1].set()
    rest = [event async for event in events]
    assert [event.resume.speakers for event in rest] == [b"++", b"++"]  # type: ignore[union-attr]


async def test_a_failed_segment_leaves_the_voices_as_they_were() -> None:
    diarizer = Diarizer()
    diarizer.faults = [None, WorkerUnavailable("gone"), RuntimeError("a fault"), None]
    told = speakers(await Session(diarizer).all_merged(*(final(n) for n in range(4)), DONE))
    assert [one.missing for one in told] == ["", "unavailable", AuricleError.code, ""]
    assert [one.state for one in told] == [b"+", b"+", b"+", b"++"]
    assert told[1].parts == () and told[1].source is None


async def test_the_text_is_divided_by_words_if_the_session_has_them() -> None:
    words = SegmentWords(0, (Word("one", "one ", 0, 400), Word("two", "two", 500, 900)), "aligned")
    session = Session(Diarizer(), opened=replace(OPENED, words=True))
    told = await session.all_merged(final(0, "one two"), words, DONE)
    (found,) = speakers(told)
    assert told.index(words) < told.index(found)
    assert (found.source, found.parts[0].text) == ("aligned", "one two")


async def test_missing_words_do_not_cost_speakers() -> None:
    session = Session(Diarizer(), opened=replace(OPENED, words=True))
    told = await session.all_merged(final(0), SegmentWords(0, missing="unavailable"), DONE)
    (found,) = speakers(told)
    assert (found.source, found.parts[0].text) == ("commit_grid", "one")


async def test_without_audio_there_are_no_speakers() -> None:
    """The text of another processor, and segments that arrived as features."""
    session = Session(Diarizer())

    async def events() -> AsyncGenerator[SessionEvent, None]:
        yield final(0)
        features = OpenSegment(1, 0, CHECKPOINT.geometry, KeyScheme("f", "float32", "t"))
        mel = np.zeros((100, 128), np.float32)
        features.audio.push_features(FeaturePacket(0, 0, SECOND, True, mel.tobytes()))
        session.speakers.ended(EndedSegment(features, SECOND))
        yield final(1)
        yield DONE

    told = speakers([event async for event in session.speakers.merged(events())])
    assert [one.missing for one in told] == ["no_audio", "no_audio"]


@pytest.mark.parametrize(
    ("last", "code"),
    [(HandedOver(POINT), "handed_over"), (Failed("internal", "x"), "session_failed")],
)
async def test_a_session_that_leaves_does_not_wait(last: SessionEvent, code: str) -> None:
    diarizer = Diarizer()
    diarizer.gates = {0: asyncio.Event()}
    told = await Session(diarizer).all_merged(final(0), last)
    assert speakers(told) == [SegmentSpeakers(0, missing=code)]


async def test_nobody_waits_for_a_pool_that_is_being_started() -> None:
    diarizer = Diarizer()
    diarizer.empty = True
    (told,) = speakers(await Session(diarizer).all_merged(final(0), DONE))
    assert told.missing == "starting"
    assert not diarizer.asked
