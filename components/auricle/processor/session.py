"""One session: audio in, events out, decode by decode."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.checkpoint.geometry import Geometry
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import AuricleError
from auricle.messages import (
    Done,
    Failed,
    Final,
    OpenSession,
    Partial,
    ResumePoint,
    SessionEvent,
    SessionReady,
)
from auricle.processor.inbox import AudioInbox
from auricle.processor.recognizer import DecodeTask, Recognizer
from auricle.processor.segments import SegmentPolicy, next_decode
from auricle.processor.stability import Stability, resumed
from auricle.processor.usage import UsageMeter
from auricle.processor.windows import KeyScheme, SegmentAudio
from auricle.settings import ProcessorSettings

# Less audio than this at the end of a session holds no word and is not decoded.
_SHORTEST_SEGMENT = SAMPLE_RATE // 10
_MIN_NEW_TOKENS = 16


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
    ) -> None:
        # Without partials a whole segment waits before it is decoded.
        waiting = 0.0 if opened.partials else settings.max_segment_seconds
        self.inbox = AudioInbox(
            opened.resume.segment_start, settings.max_buffered_seconds + waiting
        )
        self.tenant = opened.tenant
        self._opened = opened
        self._settings = settings
        self._checkpoint = checkpoint
        self._language = checkpoint.prompt.check_language(opened.language)
        self._recognizer = recognizer
        self.usage = UsageMeter()
        self._scheme = KeyScheme(checkpoint.fingerprint, settings.dtype, opened.tenant)
        self._policy = SegmentPolicy.from_seconds(
            chunk_ms=opened.chunk_ms,
            pause_after=settings.pause_after_seconds,
            maximum=settings.max_segment_seconds,
            search=settings.cut_search_seconds,
        )
        resume = opened.resume
        self._segment = resume.segment
        self._segment_start = resume.segment_start
        self._previous_text = resume.context
        self._audio = SegmentAudio(checkpoint.geometry, self._scheme)
        self._stability = resumed(resume.committed_tokens, settings.unfixed_chunks)
        self._offset = 0  # of the last decode, in samples of the segment

    @property
    def committed_tokens(self) -> tuple[int, ...]:
        """Answer tokens of the open segment that will not change."""
        return self._stability.committed

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Ready, then partials and finals, then done or failed. Close it to end the session."""
        try:
            yield SessionReady(self._opened.session)
            while True:
                await self.inbox.changed()
                ended = self.inbox.total is not None
                self._audio.push(self.inbox.take())
                async for event in self._decode_available():
                    yield event
                if ended:
                    async for event in self._finish():
                        yield event
                    return
        except AuricleError as error:
            yield Failed(error.code, str(error))
        finally:
            self._recognizer.close()

    async def _decode_available(self) -> AsyncGenerator[SessionEvent, None]:
        """Decode at the latest grid point reached, ending segments on the way."""
        while True:
            step = next_decode(
                self._audio, self._policy, self._offset, self._stability.committed_before
            )
            if step is None:
                return
            if step.ends_segment:
                yield await self._end_segment(step.offset)
            elif self._opened.partials:
                yield await self._decode_partial(step.offset)
            else:
                return
            # Audio may have arrived meanwhile: a grid point already passed is skipped.
            self._audio.push(self.inbox.take())

    async def _decode_partial(self, offset: int) -> Partial:
        await self._decode(offset, final=False)
        self.inbox.consumed(self._segment_start + offset)
        prompt = self._checkpoint.prompt
        _, committed = prompt.answer(self._stability.committed, self._language)
        language, text = prompt.answer(self._stability.tokens, self._language)
        return Partial(
            segment=self._segment,
            committed=committed,
            partial=text.removeprefix(committed),
            audio_ms=_milliseconds(self._segment_start + offset),
            language=language,
            resume=self._resume_point(),
        )

    async def _end_segment(self, offset: int) -> Final:
        """Decode the segment's first `offset` samples for good and open the next segment."""
        await self._decode(offset, final=True)
        language, text = self._checkpoint.prompt.answer(self._stability.tokens, self._language)
        start, end = self._segment_start, self._segment_start + offset
        rest = self._audio.pcm(offset, self._audio.samples)
        self._audio = SegmentAudio(self._checkpoint.geometry, self._scheme)
        self._audio.push(rest)
        self._segment += 1
        self._segment_start = end
        self._offset = 0
        self._stability = Stability()
        self._previous_text = text or self._previous_text
        self._recognizer.start_segment()
        self.inbox.consumed(end)
        return Final(
            segment=self._segment - 1,
            text=text,
            start_ms=_milliseconds(start),
            end_ms=_milliseconds(end),
            language=language,
            resume=self._resume_point(),
        )

    async def _finish(self) -> AsyncGenerator[SessionEvent, None]:
        if self._audio.samples >= _SHORTEST_SEGMENT:
            yield await self._end_segment(self._audio.samples)
        yield Done(self.usage.report(_milliseconds(self.inbox.received)))

    async def _decode(self, offset: int, *, final: bool) -> None:
        prompt = self._checkpoint.prompt
        limit = int(self._settings.max_tokens_per_second * offset / SAMPLE_RATE)
        committed = self._stability.committed
        task = DecodeTask(
            head=prompt.head(self._context()),
            tail=(*prompt.tail(self._language), *committed),
            max_tokens=max(limit - len(committed), _MIN_NEW_TOKENS),
            final=final,
        )
        reply = await self._recognizer.decode(self._audio, offset, task, self.usage)
        self._stability = self._stability.after(
            reply.tokens,
            offset,
            rollback=self._settings.rollback_tokens,
            unfixed_decodes=self._settings.unfixed_chunks,
            ends_whole=prompt.whole_characters,
        )
        self._offset = offset

    def _context(self) -> str:
        """The user's context, then the end of the last committed text, cut at a word."""
        limit = self._settings.context_characters
        tail = self._previous_text
        if len(tail) > limit:
            tail = tail[len(tail) - limit :].partition(" ")[2]
        return " ".join(part for part in (self._opened.context, tail) if part)

    def _resume_point(self) -> ResumePoint:
        return ResumePoint(
            segment=self._segment,
            segment_start=self._segment_start,
            committed_tokens=self._stability.committed,
            context=self._previous_text,
        )


def _milliseconds(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
