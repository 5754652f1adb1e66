"""Transcribes recordings, part by part, as a live session transcribes its segments."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.recording import RecordingLimits
from auricle.audio.segmentation import SegmentLimits
from auricle.core.aio import cancelled
from auricle.core.fair_slots import FairSlots
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import joined
from auricle.frontend.recordings.annotations import (
    NO_SPEAKERS,
    NO_TRANSLATION,
    NO_WORDS,
    PartSpeakers,
    PartWords,
    Translated,
    Voices,
    speakers_of,
    translated,
    words_of,
)
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.decoding_process import DecodingJob, EndOfRecording, Output
from auricle.frontend.recordings.parts import DecodedSamples, RecordingPart
from auricle.frontend.recordings.sandbox import ProcessLimits
from auricle.process.tracing import NO_TRACE
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    ScoredToken,
    SegmentFinal,
    SegmentWords,
    SessionDone,
    SessionEvent,
)
from auricle.protocol.stream import Usage, Word
from auricle.transcript.confidence import of_text
from auricle.transcript.words import divided


class PartTranscript:
    """Collects the events of a part of a recording, which a processor may cut into segments.

    Annotations that were not requested are empty.
    """

    def __init__(self) -> None:
        self._finals: list[SegmentFinal] = []  # those with text
        self._words: dict[int, SegmentWords] = {}
        self._speakers: dict[int, SegmentSpeakers] = {}
        self._translations: dict[int, SegmentTranslation] = {}
        self._usage = NO_USAGE

    def add(self, event: SessionEvent) -> None:
        match event:
            case SegmentFinal() if event.text:
                self._finals.append(event)
            case SegmentWords():
                self._words[event.segment] = event
            case SegmentSpeakers():
                self._speakers[event.segment] = event
            case SegmentTranslation() if event.final:
                self._translations[event.segment] = event
            case SessionDone():
                self._usage = event.usage

    def segment(self, part: RecordingPart) -> RecordingSegment:
        """Return the part of the recording as one segment."""
        finals = self._finals
        words = [self._words[final.segment] for final in finals] if self._words else ()
        return RecordingSegment(
            text=" ".join(final.text for final in finals),
            start=part.start,
            end=part.end,
            language=finals[0].language if finals else "",
            tokens=joined((final.text, final.tokens) for final in finals),
            words=words_of(words),
            grid_words=tuple(word for final in finals for word in final.words),
            translation=translated(finals, self._translations),
            speakers=speakers_of(self._by_segment),
            speech=part.speech,
            usage=self._usage,
        )

    def voices(self, before: Voices) -> Voices:
        return before.after(self._by_segment)

    @property
    def _by_segment(self) -> list[SegmentSpeakers]:
        return [self._speakers[final.segment] for final in self._finals] if self._speakers else []


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A file to transcribe; `name` is the client's file name.

    Decoding processes and parts are shared fairly between owners: `owner` is a tenant, or an
    address where all clients are one tenant.
    Without `endpointing` all audio counts as speech. Without `channel` all channels are mixed.
    With `logprobs` segments have tokens, with `words` their words, with `grid_words` words with
    the times of decodes, with `translate`, an ISO 639-1 code, their translation, with `diarize`
    their speakers, at most `max_speakers`. With `languages` each segment is in one of them, with
    `to_english` its text is the speech model's translation. With `keep_damaged` a damaged recording
    is transcribed as far as it can be decoded.
    """

    path: Path
    name: str
    id: str = ""
    tenant: str = ""
    owner: str = ""
    trace: str = NO_TRACE
    language: str | None = None
    context: str = ""
    endpointing: EndpointingOptions | None
    channel: int | None = None
    logprobs: bool = False
    words: bool = False
    grid_words: bool = False
    translate: str | None = None
    to_english: bool = False
    languages: tuple[str, ...] = ()
    diarize: bool = False
    max_speakers: int | None = None
    keep_damaged: bool = False


NO_USAGE = Usage()


@dataclass(frozen=True)
class RecordingSegment:
    """The text of samples [start, end) (16 kHz) of the recording, and its annotations.

    `grid_words` are for their confidence: a part is decoded once, so their times are shares of it.
    `speech` is the probability that it has speech, see `RecordingPart`; `usage` the decode's cost.
    """

    text: str
    start: int
    end: int
    language: str
    tokens: tuple[ScoredToken, ...] = ()
    words: PartWords = NO_WORDS
    grid_words: tuple[Word, ...] = ()
    translation: Translated = NO_TRANSLATION
    speakers: PartSpeakers = NO_SPEAKERS
    speech: float = 1.0
    usage: Usage = NO_USAGE

    @property
    def confidence(self) -> float | None:
        """The model's confidence in the text; None without `grid_words`."""
        return of_text(word.confidence for word in self.grid_words)


@dataclass(frozen=True)
class DecodedSeconds:
    """Further `seconds` of audio were decoded, silence included; for a tenant's budget.

    Time in which the container has no audio does not count.

    It comes as soon as they are decoded, even if the recording fails later.
    """

    seconds: float


@dataclass(frozen=True)
class Whole:
    """Follows the last segment: the recording's duration, with the time without audio.

    `channels` is their number, if the recording has a `channel`. `warnings` concern all of it.
    """

    seconds: float
    channels: int = 1
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Transcribed:
    """A part, and the state before the next one: its context, voices and language."""

    segment: RecordingSegment
    context: str
    voices: Voices
    language: str


_NOTHING = _Transcribed(RecordingSegment("", 0, 0, ""), "", Voices(), "")  # before the first part


class RecordingTranscriber:
    """Transcribes all recordings of this frontend, on one event loop.

    The parts of all recordings share `recording_parts_in_flight` slots; owners take turns. A part
    waits for the one before it if it needs that part's text as context (`context_characters`) or
    its voices (`diarize`, until the pool is given up). Where the model detects languages, all parts
    wait for the first: parts are short, and a part with a doubtful language gets the first one's.
    """

    def __init__(self, frontend: Frontend, decoders: DecodingProcesses) -> None:
        settings = frontend.settings
        self._frontend = frontend
        self._settings = settings
        self._decoders = decoders
        in_flight = settings.recording_parts_in_flight
        self._turns = FairSlots(
            in_flight, per_owner=in_flight, max_waiting=in_flight * settings.max_recordings
        )
        self._limits = SegmentLimits.from_seconds(
            pause_after=settings.recorded_pause_after,
            maximum=settings.max_segment_seconds,
            search=settings.cut_search_seconds,
        )

    async def transcribe(
        self, recording: Recording
    ) -> AsyncGenerator[DecodedSeconds | RecordingSegment | Whole, None]:
        """Yield segments in order, then `Whole`. Closing the iterator stops all its work.

        `DecodedSeconds` comes in between, ahead of the segments.

        Raises AuricleError if the file cannot be decoded or a part fails.
        """
        running: deque[asyncio.Task[_Transcribed]] = deque()
        first: asyncio.Task[_Transcribed] | None = None
        last: asyncio.Task[_Transcribed] | None = None
        alone = _NOTHING  # the state before a part that waits for none
        decoding = self._decoders.outputs(self._job(recording), recording.path, recording.owner)
        async with aclosing(decoding) as outputs:
            following: asyncio.Task[Output] | None = None
            whole: Whole | None = None
            try:
                while running or whole is None:
                    if following is None and whole is None and len(running) < self._per_recording:
                        following = asyncio.create_task(anext(outputs))
                    await _any_of(following, running)
                    _raise_failure(running)
                    while running and running[0].done():
                        transcribed = running.popleft().result()
                        if transcribed.voices.given_up:
                            alone = replace(_NOTHING, voices=transcribed.voices)
                        yield transcribed.segment
                    if following is not None and following.done():
                        output, following = following.result(), None
                        if isinstance(output, EndOfRecording):
                            seconds = output.samples / SAMPLE_RATE
                            whole = Whole(seconds, output.channels, output.warnings)
                        elif isinstance(output, DecodedSamples):
                            yield DecodedSeconds(output.samples / SAMPLE_RATE)
                        else:
                            diarized = recording.diarize and not alone.voices.given_up
                            follows = self._settings.context_characters or diarized
                            before = last if follows and last is not None else alone
                            last = asyncio.create_task(self._part(recording, output, before, first))
                            first = first or last
                            running.append(last)
                yield whole
            finally:
                await cancelled([*running, *([following] if following else [])])

    @property
    def _per_recording(self) -> int:
        return self._settings.recording_parts_in_flight

    def _job(self, recording: Recording) -> DecodingJob:
        settings = self._settings
        return DecodingJob(
            name=recording.name,
            recording=RecordingLimits(
                seconds=settings.max_recording_seconds,
                tracks=settings.max_recording_tracks,
                channel_rate=settings.max_recording_channel_rate,
                packets_per_second=settings.max_recording_packets_per_second,
            ),
            process=ProcessLimits(
                cpu_seconds=settings.max_decoding_cpu_seconds,
                memory_bytes=settings.max_decoding_memory_gib << 30,
            ),
            segments=self._limits,
            endpointing=recording.endpointing,
            channel=recording.channel,
            most_channels=settings.max_channels,
            keep_damaged=recording.keep_damaged,
        )

    async def _part(
        self,
        recording: Recording,
        part: RecordingPart,
        before: asyncio.Task[_Transcribed] | _Transcribed,
        first: asyncio.Task[_Transcribed] | None,
    ) -> _Transcribed:
        """Transcribe one part, as a session that follows the part `before`."""
        last = before if isinstance(before, _Transcribed) else await asyncio.shield(before)
        language = last.language
        if first is not None and recording.language is None and self._frontend.spoken.detects:
            language = (await asyncio.shield(first)).language
        context = last.context if self._settings.context_characters else ""
        given_up = recording.diarize and last.voices.given_up
        wanted = replace(recording, diarize=False) if given_up else recording
        async with self._turns.slot(recording.owner):
            resume = ResumePoint(
                segment_start=part.start,
                context=context,
                speakers=last.voices.state,
                language=language,
            )
            transcript = await self._session(wanted, part, resume)
        segment = transcript.segment(part)
        if given_up:
            segment = replace(segment, speakers=PartSpeakers(missing=last.voices.missing))
        return _Transcribed(
            segment,
            segment.text or context,
            transcript.voices(last.voices),
            segment.language or language,
        )

    async def _session(
        self, recording: Recording, part: RecordingPart, resume: ResumePoint
    ) -> PartTranscript:
        """Transcribe a part on a processor, from the state before it."""
        opened = OpenSession(
            session=uuid.uuid4().hex,
            tenant=recording.tenant,
            language=recording.language,
            languages=recording.languages,
            context=recording.context,
            chunk_ms=self._settings.default_chunk_ms,
            partials=False,
            background=True,
            trace=recording.trace,
            logprobs=recording.logprobs,
            words=recording.words,
            grid_words=recording.grid_words,
            translate=() if recording.translate is None else (recording.translate,),
            to_english=recording.to_english,
            diarize=recording.diarize,
            max_speakers=recording.max_speakers,
        )
        channel = "" if recording.channel is None else f"{recording.channel}."
        named = f"{channel}{part.start}"
        link = self._frontend.link(opened, resume, session=recording.id, part=named)
        chunk = AudioChunk(part.start, np.frombuffer(part.pcm, "<i2"), "endpoint")
        await link.add(chunk)
        link.finish(chunk.end)
        transcript = PartTranscript()

        async def handle(event: SessionEvent) -> None:
            transcript.add(event)

        await link.run(handle)
        return transcript


async def _any_of(
    following: asyncio.Task[Output] | None, running: Iterable[asyncio.Task[_Transcribed]]
) -> None:
    """Wait for the next output, or for another part; parts may end before earlier ones."""
    awaited: set[asyncio.Task[Any]] = {task for task in running if not task.done()}
    if following is not None:
        awaited.add(following)
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)


def _raise_failure(running: Iterable[asyncio.Task[_Transcribed]]) -> None:
    """Raise the error of any part that failed, without waiting for the parts before it."""
    for task in running:
        if task.done():
            task.result()


@dataclass(frozen=True)
class Saying:
    """The text of one turn of a speaker, counted from 1; None if the speaker is not known.

    Times are in milliseconds of the recording. `words` are the words with times.
    """

    speaker: int | None
    start_ms: int
    end_ms: int
    text: str
    words: tuple[Word, ...]


def by_speaker(segment: RecordingSegment) -> list[Saying]:
    """Divide a segment by its speakers, in order; the `text` of all, joined, is the segment's.

    A segment without known speakers is one saying.
    """
    words, turns = segment.words.words, segment.speakers.turns
    if not turns:
        start, end = (at * 1000 // SAMPLE_RATE for at in (segment.start, segment.end))
        return [Saying(None, start, end, segment.text, words)]
    shares = divided([word.text for word in words], [turn.text for turn in turns])
    return [
        Saying(turn.speaker, turn.start_ms, turn.end_ms, turn.text, words[own])
        for turn, own in zip(turns, shares, strict=True)
    ]
