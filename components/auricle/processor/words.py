"""A session's words: each final with text is followed by its own, and no text waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from msgspec.structs import replace

from auricle.alignment.words import Piece, pieces
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.errors import AuricleError
from auricle.load.asked_meter import AskedMeter
from auricle.messages import Done, Failed, Final, HandedOver, OpenSession, SessionEvent, Words
from auricle.processor.aligner import Spoken, WordAligner
from auricle.processor.open_segment import OpenSegment
from auricle.processor.word_times import absent, aligned
from auricle.tasks import cancelled

log = logging.getLogger(__name__)
# Why a segment has no aligned times; otherwise it is the code of the error that was last.
LANGUAGE, BUSY, NO_AUDIO, MOVED, FAILED, STARTING = (
    *("language", "overloaded", "no_audio", "handed_over", "session_failed", "starting"),
)
ASKED = "words"  # of the pools beside the path


@dataclass(frozen=True)
class WordRules:
    """Words are missing `deadline_seconds` after their final; `at_a_time` segments may wait."""

    deadline_seconds: float
    at_a_time: int


class SessionWords:
    """Puts the words of one session between its other events. Used on the event loop."""

    def __init__(
        self,
        opened: OpenSession,
        rules: WordRules,
        aligner: WordAligner,
        asked: AskedMeter,
    ) -> None:
        """`asked` counts what is asked of the pool."""
        self._asked = asked
        self._opened = opened
        self._rules = rules
        self._aligner = aligner
        self._segments: dict[int, tuple[OpenSegment, int]] = {}  # that ended, until their final
        self._waiting: dict[int, asyncio.Task[None]] = {}
        self._ready: deque[Words] = deque()
        self._changed = asyncio.Event()

    def ended(self, segment: OpenSegment, samples: int) -> None:
        """A segment has ended after `samples`; its final follows."""
        self._segments[segment.number] = (segment, samples)

    async def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its words, which never hold up another event.

        Finals must have words with the times of decodes, whose confidence those that follow have.
        Only Done waits, for what is still under way; each segment has a deadline of its own.
        """
        following: asyncio.Task[SessionEvent | None] | None = None
        async with aclosing(events):
            try:
                while True:
                    while self._ready:
                        yield self._ready.popleft()
                    following = following or asyncio.create_task(_next(events), name="event")
                    if not await self._either(following):
                        continue
                    event, following = following.result(), None
                    if event is None:
                        return
                    if isinstance(event, Final):
                        self._begin(event)
                        event = self._plain(event)
                    elif isinstance(event, Done | Failed | HandedOver):
                        async for words in self._rest(event):
                            yield words
                    yield event
            finally:  # the generator can be closed only once nobody waits for its next event
                await cancelled([*self._waiting.values(), *([following] if following else [])])

    async def _either(self, following: asyncio.Task[SessionEvent | None]) -> bool:
        """Wait for the next event or for words; return whether it is an event."""
        following.add_done_callback(self._look)
        await self._changed.wait()
        self._changed.clear()
        following.remove_done_callback(self._look)
        return following.done()

    def _look(self, _task: object) -> None:
        self._changed.set()

    def _plain(self, final: Final) -> Final:
        """Return the final as it is told: its rough words only if they were asked for as well."""
        return final if self._opened.grid_words or not final.words else replace(final, words=())

    def _begin(self, final: Final) -> None:
        """Ask for the words of a final, or say at once why there are none."""
        segment = self._segments.pop(final.segment, None)
        if not final.text:
            return
        split = pieces(final.text)
        if not split:  # punctuation only
            self._tell(Words(final.segment, (), "aligned"))
        elif segment is None:  # all its text was committed on another processor
            self._tell(absent(final.segment, NO_AUDIO))
        elif final.language and final.language not in self._aligner.languages:
            self._tell(Words(final.segment, final.words, "commit_grid", LANGUAGE))
        elif len(self._waiting) >= self._rules.at_a_time:
            self._tell(absent(final.segment, BUSY))
        else:
            task = asyncio.create_task(self._align(final, split, *segment), name="words")
            self._waiting[final.segment] = task

    async def _align(
        self, final: Final, split: tuple[Piece, ...], segment: OpenSegment, samples: int
    ) -> None:
        spoken = Spoken(
            session=self._opened.session,
            tenant=self._opened.tenant,
            audio=segment.audio,
            samples=samples,
            audio_ms=milliseconds(samples),
            words=tuple(piece.word for piece in split),
            background=self._opened.background,
            trace=self._opened.trace,
        )
        self._asked.speech(ASKED, samples / SAMPLE_RATE)
        try:
            if await self._aligner.starting():
                found = absent(final.segment, STARTING)
            else:
                times = await self._aligner.times(spoken, self._rules.deadline_seconds)
                confidences = [word.confidence for word in final.words] or [None] * len(split)
                found = aligned(final.segment, segment.start, split, times, confidences)
        except AuricleError as error:
            log.warning("segment %d has no words: %s", final.segment, error)
            found = absent(final.segment, error.code)
        except Exception:  # the session goes on; it must not wait for words that never come
            log.exception("segment %d has no words", final.segment)
            found = absent(final.segment, AuricleError.code)
        del self._waiting[final.segment]
        self._tell(found)

    async def _rest(self, event: SessionEvent) -> AsyncGenerator[Words, None]:
        """Yield the words that are still to come; only Done waits for them."""
        if not isinstance(event, Done):
            late = list(self._waiting)
            await cancelled(list(self._waiting.values()))
            self._waiting.clear()
            for segment in late:
                self._tell(absent(segment, MOVED if isinstance(event, HandedOver) else FAILED))
        while self._waiting or self._ready:
            if self._ready:
                yield self._ready.popleft()
                continue
            await self._changed.wait()
            self._changed.clear()

    def _tell(self, words: Words) -> None:
        self._ready.append(words)
        self._changed.set()


async def _next(events: AsyncGenerator[SessionEvent, None]) -> SessionEvent | None:
    return await anext(events, None)
