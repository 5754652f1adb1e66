"""The parts of a recording follow one another like the segments of a live session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from auricle.checkpoints.language_support import LanguageSupport
from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, WorkerUnavailable
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import ProcessorLink
from auricle.frontend.recordings.annotations import NO_SPEAKERS, PartSpeakers
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.decoding_process import DecodingJob, EndOfRecording, Output
from auricle.frontend.recordings.parts import RecordingPart
from auricle.frontend.recordings.transcriber import (
    Recording,
    RecordingSegment,
    RecordingTranscriber,
)
from auricle.protocol.annotation import SegmentSpeakers
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SessionDone,
    SessionEvent,
)
from auricle.protocol.stream import SpeakerPart, Usage

pytestmark = pytest.mark.unit
SECOND = 16_000


class Parts:
    """A decoding process: `count` parts of one second each."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def outputs(self, job: DecodingJob, path: Path, owner: str) -> AsyncGenerator[Output]:
        for number in range(self._count):
            yield RecordingPart(number * SECOND, (number + 1) * SECOND, b"\0\0" * SECOND)
        yield EndOfRecording(self._count * SECOND)


class Link:
    """A part's session: it yields the text of its part, and on a signal the events `late`."""

    def __init__(
        self, sessions: Sessions, says: str | AuricleError, context: str, *late: SessionEvent
    ) -> None:
        self._sessions, self._says, self._resume = sessions, says, ResumePoint(context=context)
        self._late = late

    async def add(self, piece: object) -> None: ...

    def finish(self, total: int) -> None: ...

    run = ProcessorLink.run

    async def pump(self) -> None:
        await asyncio.Event().wait()

    async def events(self) -> AsyncGenerator[SessionEvent]:
        sessions = self._sessions
        sessions.in_work += 1
        sessions.most_in_work = max(sessions.most_in_work, sessions.in_work)
        await sessions.go.wait()
        for _ in range(10):  # others may begin
            await asyncio.sleep(0)
        sessions.in_work -= 1
        if isinstance(self._says, AuricleError):
            raise self._says
        yield SegmentFinal(0, self._says, 0, 1000, "English", self._resume)
        for event in self._late:
            yield event
        yield SessionDone(Usage(1000, 1))


class Sessions:
    """The frontend: records the context of each part in the order in which the sessions open."""

    def __init__(
        self, *says: str | AuricleError, detects: bool = False, **settings: object
    ) -> None:
        values = {"model": "models/demo", "recording_parts_in_flight": 3, **settings}
        self.settings = FrontendSettings.model_validate(values)
        self.contexts: list[str] = []
        self.spoken = LanguageSupport(detects=detects)
        self.languages: list[str] = []  # of the preceding text
        self.voices: list[bytes | None] = []  # the state before each part; None without diarization
        self.pool_is_down = False
        self.live: list[OpenSession] = []  # sessions with live priority
        self.in_work = self.most_in_work = 0
        self.opened = asyncio.Semaphore(0)
        self.go = asyncio.Event()
        self._says = says
        self._transcriber = RecordingTranscriber(
            cast(Frontend, cast(Any, self)), cast(DecodingProcesses, Parts(len(says)))
        )

    def link(self, opened: OpenSession, resume: ResumePoint, **_: object) -> Link:
        self.contexts.append(resume.context)
        self.languages.append(resume.language)
        self.live += [] if opened.background else [opened]
        self.opened.release()
        self.voices.append(resume.speakers if opened.diarize else None)
        says = self._says[resume.segment_start // SECOND]
        late = [self._speakers(str(says), resume.speakers)] if opened.diarize and says else []
        return Link(self, says, resume.context, *late)

    def _speakers(self, text: str, voices: bytes) -> SegmentSpeakers:
        """Each part has one more voice."""
        if self.pool_is_down:
            return SegmentSpeakers(0, missing="unavailable", state=voices)
        known = voices + b"+"
        return SegmentSpeakers(0, (SpeakerPart(len(known), 0, 1000, text),), "aligned", state=known)

    async def segments(self, *, diarize: bool = False) -> list[RecordingSegment]:
        recording = Recording(path=Path("x"), name="x", endpointing=None, diarize=diarize)
        outputs = self._transcriber.transcribe(recording)
        return [output async for output in outputs if isinstance(output, RecordingSegment)]

    async def texts(self) -> list[str]:
        return [segment.text for segment in await self.segments()]


async def test_the_text_of_a_part_is_context_of_the_next_as_in_a_live_session() -> None:
    sessions = Sessions("one", "", "three", "four")
    sessions.go.set()
    async with asyncio.timeout(60):
        assert await sessions.texts() == ["one", "", "three", "four"]
    # A part without words does not change the context.
    assert sessions.contexts == ["", "one", "one", "three"]


async def test_parts_without_context_do_not_wait_for_one_another() -> None:
    sessions = Sessions("one", "two", "three", context_characters=0)
    async with asyncio.timeout(60):
        texts = asyncio.create_task(sessions.texts())
        for _ in range(3):
            await sessions.opened.acquire()
        sessions.go.set()
        assert await texts == ["one", "two", "three"]
    assert sessions.contexts == ["", "", ""]


async def test_a_part_knows_the_voices_of_those_before_it() -> None:
    sessions = Sessions("one", "", "three", "four", context_characters=0)
    sessions.go.set()
    async with asyncio.timeout(60):
        segments = await sessions.segments(diarize=True)
    numbers = [[turn.speaker for turn in segment.speakers.turns] for segment in segments]
    assert numbers == [[1], [], [2], [3]]
    # A part without words does not change them; the context is separate.
    assert sessions.voices == [b"", b"+", b"+", b"++"]
    assert sessions.contexts == [""] * 4


async def test_voices_are_for_those_who_ask_for_speakers() -> None:
    sessions = Sessions("one", "two")
    sessions.go.set()
    async with asyncio.timeout(60):
        segments = await sessions.segments()
    assert sessions.voices == [None, None]
    assert [segment.speakers for segment in segments] == [NO_SPEAKERS] * 2


async def test_a_recording_does_not_wait_for_speakers_for_ever() -> None:
    """A pool that does not answer costs each part its deadline, and the parts run in sequence."""
    sessions = Sessions("one", "two", "three", "four", "five")
    sessions.pool_is_down = True
    sessions.go.set()
    async with asyncio.timeout(60):
        segments = await sessions.segments(diarize=True)
    assert sessions.voices == [b"", b"", b"", None, None]
    assert [segment.text for segment in segments] == ["one", "two", "three", "four", "five"]
    assert [segment.speakers for segment in segments] == [PartSpeakers(missing="unavailable")] * 5


async def test_parts_do_not_wait_for_one_another_once_speakers_are_given_up() -> None:
    sessions = Sessions(*("ten",) * 10, context_characters=0)
    sessions.pool_is_down = True
    sessions.go.set()
    async with asyncio.timeout(60):
        segments = await sessions.segments(diarize=True)
    assert sessions.voices == [b"", b"", b"", *[None] * 7]
    assert [segment.speakers for segment in segments] == [PartSpeakers(missing="unavailable")] * 10
    assert sessions.most_in_work == 3


async def test_where_languages_are_detected_all_parts_know_that_of_the_first() -> None:
    sessions = Sessions("one", "two", "three", "four", detects=True, context_characters=0)
    told = asyncio.create_task(sessions.texts())
    async with asyncio.timeout(60):
        await sessions.opened.acquire()
        for _ in range(20):
            await asyncio.sleep(0)
        assert sessions.in_work == 1
        sessions.go.set()
        assert await told == ["one", "two", "three", "four"]
    assert sessions.most_in_work == 3
    assert sessions.languages == ["", "English", "English", "English"]


async def test_a_part_that_fails_fails_the_recording_and_nobody_waits_for_it() -> None:
    sessions = Sessions("one", WorkerUnavailable("no worker"), "three")
    sessions.go.set()
    async with asyncio.timeout(60):
        with pytest.raises(WorkerUnavailable, match="no worker"):
            await sessions.texts()
    assert sessions.contexts == ["", "one"]


async def test_of_128_recordings_so_many_parts_as_set_are_in_work_and_yield_to_live_sessions() -> (
    None
):
    sessions = Sessions("one", "two", recording_parts_in_flight=2, context_characters=0)
    sessions.go.set()
    async with asyncio.timeout(60):
        texts = await asyncio.gather(*(sessions.texts() for _ in range(128)))
    assert texts == [["one", "two"]] * 128
    assert sessions.most_in_work == 2
    assert sessions.live == []
