"""A session's speakers: each final with text is followed by who said what; no text waits for it.

Segments are diarized one after the other, because each needs the voices that are known after the
one before. These are part of the session's resume point, so that speakers keep their numbers
wherever the session goes on. What was told is never changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from auricle.alignment.words import pieces
from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.prompt import PromptFormat
from auricle.load.asked_meter import AskedMeter
from auricle.messages.diarizing import DiarizeReply, DiarizeRequest
from auricle.messages.sessions import Final, HandedOver, OpenSession, Partial, SessionEvent, Words
from auricle.messages.speakers import Speakers
from auricle.messages.word_source import WordSource
from auricle.processor.annotator import NO_AUDIO, STARTING, AnnotationRules, Annotator
from auricle.processor.open_segment import EndedSegment
from auricle.processor.pools import Pool
from auricle.processor.spoken_parts import Said, grid_times, spoken_parts
from auricle.processor.word_times import heard_by

SPEAKERS = "speakers"  # what is asked of the pools beside the path
NOBODY = "nobody_heard"  # why a segment has no speakers


@dataclass(frozen=True)
class SpeakerRules(AnnotationRules):
    """A session has `most` speakers."""

    most: int


class SessionSpeakers(Annotator):
    """Puts the speakers of one session between its other events.

    If the session has words, they must be among the events.
    """

    name = SPEAKERS
    absence = "has no speakers"

    def __init__(
        self,
        opened: OpenSession,
        rules: SpeakerRules,
        pool: Pool,
        prompt: PromptFormat,
        language: str | None,
        asked: AskedMeter,
    ) -> None:
        """`language` is the one forced by the prompt; `asked` counts what is asked of the pool."""
        super().__init__(opened, rules)
        self._asked = asked
        self._most = rules.most
        self._pool = pool
        self._prompt = prompt
        self._language = language
        self._state = opened.resume.speakers
        self._turn = asyncio.Lock()  # whoever waits gets it in order
        self._words: dict[int, asyncio.Future[Words]] = {}

    def _seen(self, event: SessionEvent) -> SessionEvent:
        super()._seen(event)
        if isinstance(event, Words):
            words = self._words.get(event.segment)
            if words is not None and not words.done():
                words.set_result(event)
        if isinstance(event, Partial | Final | HandedOver):
            return replace(event, resume=replace(event.resume, speakers=self._state))
        return event

    def _missing(self, segment: int, why: str) -> Speakers:
        return Speakers(segment, missing=why, state=self._state)

    def _at_once(self, final: Final, ended: EndedSegment | None) -> Speakers | None:
        if ended is not None and not len(ended.segment.audio.pcm(0, 1)):  # it came as features
            return self._missing(final.segment, NO_AUDIO)
        return None

    async def _annotate(self, final: Final, ended: EndedSegment) -> Speakers:
        if self._opened.words:
            self._words[final.segment] = asyncio.get_running_loop().create_future()
        self._asked.speech(SPEAKERS, ended.samples / SAMPLE_RATE)
        try:
            async with asyncio.timeout(self._rules.deadline_seconds), self._turn:
                if await self._pool.starting():
                    return self._missing(final.segment, STARTING)
                reply = await self._reply(ended)
                self._state = reply.state
            if not reply.turns:
                return self._missing(final.segment, NOBODY)
            return await self._told(final, ended, reply)
        finally:
            self._words.pop(final.segment, None)

    async def _reply(self, ended: EndedSegment) -> DiarizeReply:
        pcm = ended.segment.audio.pcm(0, ended.samples)
        request = DiarizeRequest(
            session=self._opened.session,
            tenant=self._opened.tenant,
            pcm=pcm.astype("<i2", copy=False).tobytes(),
            state=self._state,
            most_speakers=self._most,
            background=self._opened.background,
            trace=self._opened.trace,
        )
        seconds = self._rules.deadline_seconds
        return await self._pool.ask(request, DiarizeReply, seconds, "diarizing")

    async def _told(self, final: Final, ended: EndedSegment, reply: DiarizeReply) -> Speakers:
        """Return the event of a segment that has speakers, once its words are known."""
        start, waiting = ended.segment.start, self._words.get(final.segment)
        words = () if waiting is None else (await waiting).words
        said = [(w.text, (w.start_ms + w.end_ms) * SAMPLE_RATE / 2000) for w in words]
        if not said:
            said = self._by_grid(final, ended)
        aligned = bool(words) and waiting is not None and waiting.result().source == "aligned"
        parts = spoken_parts(reply.turns, start, said, final.text)
        source: WordSource = "aligned" if aligned else "commit_grid"
        return Speakers(final.segment, parts, source, state=self._state)

    def _by_grid(self, final: Final, ended: EndedSegment) -> list[Said]:
        split = [piece.text for piece in pieces(final.text)]
        if not split:
            return []
        stability = ended.segment.stability
        tokens = self._prompt.pieces(stability.tokens, self._language)
        heard = heard_by(tokens, stability.established)
        return grid_times(split, heard, ended.segment.start, ended.samples)
