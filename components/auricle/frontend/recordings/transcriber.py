"""Recordings to text: parts are encoded and decoded in parallel, and come out in order."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.segmentation import SegmentLimits
from auricle.errors import from_code
from auricle.frontend.backend import Backend
from auricle.frontend.endpointing import EndpointingOptions, Piece
from auricle.frontend.link import ProcessorLink
from auricle.frontend.recordings.decoders import Decoders
from auricle.frontend.recordings.decoding import Decoded, DecodingJob
from auricle.frontend.recordings.parts import Part
from auricle.messages import Failed, Final, OpenSession, ResumePoint
from auricle.tasks import cancelled, first_failure_or
from auricle.tracing import NO_TRACE


@dataclass(frozen=True)
class Recording:
    """A file to transcribe; `name` is what the client called it.

    Where nobody asks for times (`timed`), sentences are transcribed several at a time.
    """

    id: str
    path: Path
    name: str
    tenant: str
    language: str | None
    context: str
    endpointing: EndpointingOptions | None
    timed: bool = True
    trace: str = NO_TRACE


@dataclass(frozen=True)
class Segment:
    """Text of samples [start, end) of the recording."""

    text: str
    start: int
    end: int
    language: str


@dataclass(frozen=True)
class Whole:
    """After the last segment: how long the recording was, silence included."""

    seconds: float


class RecordingTranscriber:
    """All recordings of this frontend. Parts take turns, whichever recording they are of."""

    def __init__(self, backend: Backend, decoders: Decoders) -> None:
        settings = backend.settings
        self._backend = backend
        self._settings = settings
        self._decoders = decoders
        self._turns = asyncio.Semaphore(settings.recording_parts_in_flight)
        self._limits = SegmentLimits.from_seconds(
            pause_after=settings.pause_after_seconds,
            maximum=settings.max_segment_seconds,
            search=settings.cut_search_seconds,
        )

    async def transcribe(self, recording: Recording) -> AsyncGenerator[Segment | Whole, None]:
        """Segments in order, then `Whole`. Close it early and all its work stops."""
        running: deque[asyncio.Task[Segment]] = deque()
        async with aclosing(self._decoders.parts(self._job(recording))) as parts:
            following: asyncio.Task[Part | Decoded] | None = None
            whole: Whole | None = None
            try:
                while running or whole is None:
                    if following is None and whole is None and len(running) < self._per_recording:
                        following = asyncio.create_task(anext(parts))
                    await _any_of(following, running)
                    _raise_failure(running)
                    while running and running[0].done():
                        yield running.popleft().result()
                    if following is not None and following.done():
                        output, following = following.result(), None
                        if isinstance(output, Decoded):
                            whole = Whole(output.samples / SAMPLE_RATE)
                        else:
                            running.append(asyncio.create_task(self._part(recording, output)))
                yield whole
            finally:
                await cancelled([*running, *([following] if following else [])])

    @property
    def _per_recording(self) -> int:
        return self._settings.recording_parts_in_flight

    def _job(self, recording: Recording) -> DecodingJob:
        settings = self._settings
        return DecodingJob(
            path=str(recording.path),
            name=recording.name,
            max_seconds=settings.max_recording_seconds,
            max_cpu_seconds=settings.max_decoding_cpu_seconds,
            max_memory_gib=settings.max_decoding_memory_gib,
            limits=self._limits,
            endpointing=recording.endpointing,
            join=0 if self._timed(recording) else self._limits.pause_after,
        )

    def _timed(self, recording: Recording) -> bool:
        """The transcript bus tells of times, too."""
        return recording.timed or bool(self._settings.nats_server)

    async def _part(self, recording: Recording, part: Part) -> Segment:
        """One part is one session of one segment."""
        async with self._turns:
            return await self._session(recording, part)

    async def _session(self, recording: Recording, part: Part) -> Segment:
        opened = OpenSession(
            session=uuid.uuid4().hex,
            tenant=recording.tenant,
            language=recording.language,
            context=recording.context,
            chunk_ms=self._settings.default_chunk_ms,
            partials=False,
            background=True,
            trace=recording.trace,
        )
        resume = ResumePoint(segment_start=part.start)
        link = self._backend.link(opened, resume, session=recording.id, part=str(part.start))
        piece = Piece(part.start, np.frombuffer(part.pcm, "<i2"), "endpoint")
        await link.add(piece)
        link.finish(piece.end)
        result = asyncio.create_task(_segment(link, part))
        pump = asyncio.create_task(link.pump())
        return await first_failure_or(result, [pump])


async def _any_of(
    following: asyncio.Task[Part | Decoded] | None, running: Iterable[asyncio.Task[Segment]]
) -> None:
    awaited: set[asyncio.Task[Any]] = {*running, *([following] if following else [])}
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)


def _raise_failure(running: Iterable[asyncio.Task[Segment]]) -> None:
    """A part that failed fails the recording now, not when its turn comes."""
    for task in running:
        if task.done():
            task.result()


async def _segment(link: ProcessorLink, part: Part) -> Segment:
    """The session's text; the processor may have cut it once more."""
    finals: list[Final] = []
    async with aclosing(link.events()) as events:
        async for event in events:
            if isinstance(event, Final) and event.text:
                finals.append(event)
            elif isinstance(event, Failed):
                raise from_code(event.code, event.message)
    return Segment(
        text=" ".join(final.text for final in finals),
        start=part.start,
        end=part.end,
        language=finals[0].language if finals else "",
    )
