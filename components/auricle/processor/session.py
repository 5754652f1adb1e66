"""One session: audio in, events out, decode by decode."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE, SETTLED
from auricle.audio.pcm import milliseconds
from auricle.checkpoint.geometry import Geometry
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import AuricleError, Overloaded
from auricle.messages import (
    DecodeReply,
    Done,
    Failed,
    Final,
    HandedOver,
    OpenSession,
    Partial,
    ResumePoint,
    SessionEvent,
    SessionReady,
)
from auricle.processor.inbox import Audio, AudioInbox
from auricle.processor.load import ChunkLoad
from auricle.processor.open_segment import OpenSegment
from auricle.processor.pacing import Pacing
from auricle.processor.recognizer import DecodeTask, Recognizer
from auricle.processor.segments import SegmentPolicy, next_decode
from auricle.processor.stability import CommitRules, resumed
from auricle.processor.usage import UsageMeter
from auricle.processor.windows import KeyScheme
from auricle.settings import ProcessorSettings
from auricle.tasks import unless
from auricle.tracing import OFF, Tracer

# Less audio than this holds no word and is not decoded.
_SHORTEST_SEGMENT = SAMPLE_RATE // 10


@dataclass(frozen=True)
class CheckpointView:
    """What a session needs to know of the checkpoint."""

    geometry: Geometry
    prompt: PromptFormat
    fingerprint: str


class Session:
    """Owns a session from open to done. `events` is its only loop; nothing runs beside it.

    The consumer paces it: while nobody takes events, nothing is decoded.
    """

    def __init__(
        self,
        opened: OpenSession,
        settings: ProcessorSettings,
        checkpoint: CheckpointView,
        recognizer: Recognizer,
        load: ChunkLoad,
        tracer: Tracer = OFF,
    ) -> None:
        """`load` is that of all sessions beside this one, and of this one."""
        # Without partials a whole segment waits before it is decoded.
        waiting = 0.0 if opened.partials else settings.max_segment_seconds
        self.inbox = AudioInbox(
            opened.resume.segment_start, settings.max_buffered_seconds + waiting
        )
        self.tenant = opened.tenant
        self._handing_over = False
        self._opened = opened
        self._settings = settings
        self._prompt = checkpoint.prompt
        self._language = checkpoint.prompt.check_language(opened.language)
        self._recognizer = recognizer
        self._tracer = tracer
        self.usage = UsageMeter()
        self._policy = SegmentPolicy.from_seconds(
            chunk_ms=opened.chunk_ms,
            pause_after=settings.pause_after_seconds,
            maximum=settings.max_segment_seconds,
            search=settings.cut_search_seconds,
        )
        self._rules = CommitRules(
            rollback_tokens=settings.rollback_tokens,
            open_tokens=min(settings.open_tokens, settings.rollback_tokens),
            settled_samples=int(settings.settled_seconds * SAMPLE_RATE),
            unfixed_decodes=settings.unfixed_chunks,
        )
        self._load = load
        self._pacing = Pacing(load)
        self._incoming: deque[Audio] = deque()
        resume = opened.resume
        self._previous_text = resume.context
        # How the last answer with words began: the next one will probably begin so too.
        self._opening: tuple[int, ...] = ()
        self._segment = OpenSegment(
            resume.segment,
            resume.segment_start,
            checkpoint.geometry,
            KeyScheme(checkpoint.fingerprint, settings.dtype, opened.tenant),
            resumed(resume.committed_tokens, settings.unfixed_chunks),
        )

    @property
    def committed_tokens(self) -> tuple[int, ...]:
        """Answer tokens of the open segment that will not change."""
        return self._segment.stability.committed

    @property
    def speaking(self) -> bool:
        """Whether there is speech whose text is not final; silence is never sent here."""
        return self._segment.audio.samples > 0

    def hand_over(self) -> None:
        """End before the next decode: another processor goes on from the resume point."""
        self._handing_over = True
        self.inbox.wake()

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Ready, then partials and finals, then done or failed. Close it to end the session."""
        try:
            yield SessionReady(self._opened.session)
            while True:
                if not self._handing_over:
                    await self.inbox.changed()
                ended = self.inbox.total is not None
                if self._handing_over and not ended:
                    yield HandedOver(self._resume_point())
                    return
                self._take_audio()
                async for event in self._decode_available(partials=not ended):
                    yield event
                if ended:
                    async for event in self._finish():
                        yield event
                    return
                await self._encode_ahead()
        except AuricleError as error:
            yield Failed(error.code, str(error))
        finally:
            self._recognizer.close()

    def _take_audio(self) -> None:
        """What was received goes to the open segment, up to where speech ends."""
        self._incoming.extend(self.inbox.take())
        while self._incoming and not self._segment.speech_ended:
            self._segment.add(self._incoming.popleft())

    async def _decode_available(self, *, partials: bool) -> AsyncGenerator[SessionEvent, None]:
        """Decode at the latest grid point reached, ending segments on the way."""
        while True:
            step = next_decode(
                self._segment.audio,
                self._segment.marks,
                self._policy,
                last_offset=self._segment.passed,
                not_before=self._segment.stability.committed_before,
                stride=self._pacing.stride,
            )
            event: SessionEvent | None = None
            if step is None:
                return
            if step.ends_segment:
                event = await self._end_segment(step.offset)
            elif partials and self._opened.partials:
                event = await self._decode_partial(step.offset)
            else:
                return
            if event is not None:
                yield event
            # Audio may have arrived meanwhile: a grid point already passed is skipped.
            self._take_audio()

    async def _encode_ahead(self) -> None:
        """Seconds that are finished long before the next decode."""
        segment = self._segment
        finished = segment.audio.samples - SETTLED
        far = self._policy.grid > SAMPLE_RATE and self._opened.partials
        if far and finished // SAMPLE_RATE > segment.ahead // SAMPLE_RATE:
            segment.ahead = finished
            await self._recognizer.encode_ahead(segment.audio, self.usage)

    async def _decode_partial(self, offset: int) -> Partial | None:
        """None if the grid point was skipped: no room, or the segment's end came first."""
        segment = self._segment
        segment.passed = offset
        try:
            failures = self._recognizer.failures
            with self._load.chunk(segment.arrived(offset)) as chunk:
                decoded = await unless(self.inbox.closing, self._decode(offset, final=False))
                chunk.counts = self._recognizer.failures == failures
        except Overloaded:
            self._pacing.refused()
            self.usage.skipped()
            return None
        if decoded is None:
            self.usage.skipped()
            return None
        self.inbox.consumed(segment.start + offset)
        _, committed = self._prompt.answer(segment.stability.committed, self._language)
        language, text = self._prompt.answer(segment.stability.tokens, self._language)
        return Partial(
            segment=segment.number,
            committed=committed,
            partial=text.removeprefix(committed),
            audio_ms=milliseconds(segment.start + offset),
            language=language,
            resume=self._resume_point(),
        )

    async def _end_segment(self, offset: int) -> Final | None:
        """Decode the segment's first `offset` samples for good and open the next segment."""
        segment = self._segment
        end = segment.start + offset
        if offset < _SHORTEST_SEGMENT and not segment.stability.committed:
            self._segment = segment.after(offset, number=segment.number)
            self.inbox.consumed(end)
            return None
        await self._decode(offset, final=True)
        language, text = self._prompt.answer(segment.stability.tokens, self._language)
        self._segment = segment.after(offset, number=segment.number + 1)
        if text:
            self._previous_text = text
            self._opening = self._prompt.opening(segment.stability.tokens)
        self._recognizer.start_segment()
        self.inbox.consumed(end)
        return Final(
            segment=segment.number,
            text=text,
            start_ms=milliseconds(segment.start),
            end_ms=milliseconds(end),
            language=language,
            resume=self._resume_point(),
        )

    async def _finish(self) -> AsyncGenerator[SessionEvent, None]:
        event = await self._end_segment(self._segment.audio.samples)
        if event is not None:
            yield event
        total = self.inbox.received if self.inbox.total is None else self.inbox.total
        yield Done(self.usage.report(milliseconds(total)))

    async def _decode(self, offset: int, *, final: bool) -> DecodeReply:
        segment = self._segment
        audio_ms = milliseconds(segment.start + offset)
        with self._tracer.span(
            "chunk", self._opened.trace, segment=segment.number, audio_ms=audio_ms, final=final
        ) as trace:
            return await self._decode_traced(offset, final, trace)

    async def _decode_traced(self, offset: int, final: bool, trace: str) -> DecodeReply:
        segment = self._segment
        committed = segment.stability.committed
        limit = int(self._settings.max_tokens_per_second * offset / SAMPLE_RATE)
        task = DecodeTask(
            head=self._prompt.head(self._context()),
            tail=(*self._prompt.tail(self._language), *committed),
            max_tokens=max(limit - len(committed), self._settings.min_new_tokens),
            final=final,
            draft=(segment.stability.tokens or self._opening)[len(committed) :],
            trace=trace,
        )
        reply = await self._recognizer.decode(segment.audio, offset, task, self.usage)
        self._pacing.decoded()
        segment.stability = segment.stability.after(
            reply.tokens,
            offset,
            rules=self._rules,
            ends_whole=self._prompt.whole_characters,
        )
        return reply

    def _context(self) -> str:
        """The user's context, then the end of the last committed text, cut at a word."""
        limit = self._settings.context_characters
        tail = self._previous_text
        if len(tail) > limit:
            tail = tail[len(tail) - limit :].partition(" ")[2]
        return " ".join(part for part in (self._opened.context, tail) if part)

    def _resume_point(self) -> ResumePoint:
        return ResumePoint(
            segment=self._segment.number,
            segment_start=self._segment.start,
            committed_tokens=self._segment.stability.committed,
            context=self._previous_text,
        )
