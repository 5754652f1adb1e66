"""A session's speakers: an event after each final with text; no text waits for it.

Segments are diarized in order, because each needs the voices known after the one before. These
voices are part of the session's resume point, so that speakers keep their numbers on every
processor. Sent speakers are never revised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.checkpoints.prompt import PromptFormat
from auricle.load.meters import DemandMeter
from auricle.load.pools import SPEAKERS
from auricle.processor.annotators.annotator import NO_AUDIO, STARTING, AnnotationRules, Annotator
from auricle.processor.annotators.words import grid, heard_by
from auricle.processor.pools import Pool
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol.annotation import DiarizeReply, DiarizeRequest, SegmentSpeakers, SpeakerTurn
from auricle.protocol.sessions import (
    HandedOver,
    OpenSession,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionEvent,
)
from auricle.protocol.stream import SpeakerPart, WordSource
from auricle.transcript.words import pieces

# Divides a segment's text among the turns of its speakers. No I/O.

_SEPARATE = SAMPLE_RATE // 2  # silence in which a turn of one speaker ends
Said = tuple[str, float]  # a piece of the text, and the session's sample at its middle


def spoken_parts(
    turns: Sequence[SpeakerTurn], start: int, said: Sequence[Said], text: str
) -> tuple[SpeakerPart, ...]:
    """Return who spoke when and what, for turns of a segment that begins at session sample `start`.

    `said` is `text` in pieces, in order; each belongs to the turn nearest to it. Without pieces,
    as where the text is punctuation only, the first turn has the text.
    """
    joined = _joined(turns)
    texts = [""] * len(joined)
    for piece, at in said or [(text, 0.0)]:
        texts[_nearest(joined, at - start)] += piece
    return tuple(
        SpeakerPart(
            turn.speaker,
            milliseconds(start + turn.start),
            milliseconds(start + turn.end),
            what,
        )
        for turn, what in zip(joined, texts, strict=True)
    )


def grid_times(
    pieces: Sequence[str], heard: Sequence[tuple[int, int]], start: int, samples: int
) -> list[Said]:
    """Return the pieces of a text with the times of the decodes in which they first appeared.

    `heard` and `samples` are as in `grid`.
    """
    ends = np.cumsum([len(piece.encode()) for piece in pieces])
    middles = ends - np.diff(ends, prepend=0) / 2
    times = grid(heard, int(ends[-1]), samples)(middles)
    return [(piece, start + float(at)) for piece, at in zip(pieces, times, strict=True)]


def _joined(turns: Sequence[SpeakerTurn]) -> list[SpeakerTurn]:
    """Return turns without the short silences within them."""
    found: list[SpeakerTurn] = []
    for _, own in groupby(turns, lambda turn: turn.speaker):
        first, *rest = own
        for turn in rest:
            if turn.start - first.end < _SEPARATE:
                first = SpeakerTurn(turn.speaker, first.start, turn.end)
            else:
                found.append(first)
                first = turn
        found.append(first)
    return found


def _nearest(turns: Sequence[SpeakerTurn], at: float) -> int:
    """Return the turn in which `at` lies, or the nearest, the earlier of two."""
    return min(range(len(turns)), key=lambda n: max(turns[n].start - at, at - turns[n].end, 0))


NOBODY = "nobody_heard"  # why a segment has no speakers


@dataclass(frozen=True)
class SpeakerRules(AnnotationRules):
    """A session has at most `most` speakers; it may request fewer."""

    most: int


class SessionSpeakers(Annotator):
    """Inserts the speakers of one session into its events.

    If the session has words, the events must include them.
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
        demand: DemandMeter,
    ) -> None:
        """`language` is the one that the prompt forces."""
        super().__init__(opened, rules)
        self._demand = demand
        self._most = min(rules.most, opened.max_speakers or rules.most)
        self._pool = pool
        self._prompt = prompt
        self._language = language
        self._state = opened.resume.speakers
        self._turn = asyncio.Lock()  # first come, first served
        self._words: dict[int, asyncio.Future[SegmentWords]] = {}

    def _seen(self, event: SessionEvent) -> SessionEvent:
        super()._seen(event)
        if isinstance(event, SegmentWords):
            words = self._words.get(event.segment)
            if words is not None and not words.done():
                words.set_result(event)
        if isinstance(event, SegmentPartial | SegmentFinal | HandedOver):
            return replace(event, resume=replace(event.resume, speakers=self._state))
        return event

    def _missing(self, segment: int, why: str) -> SegmentSpeakers:
        return SegmentSpeakers(segment, missing=why, state=self._state)

    def _at_once(self, final: SegmentFinal, ended: EndedSegment | None) -> SegmentSpeakers | None:
        if ended is not None and not len(ended.segment.audio.pcm(0, 1)):  # it came as features
            return self._missing(final.segment, NO_AUDIO)
        return None

    async def _annotate(self, final: SegmentFinal, ended: EndedSegment) -> SegmentSpeakers:
        if self._opened.words:
            self._words[final.segment] = asyncio.get_running_loop().create_future()
        self._demand.speech(SPEAKERS, ended.samples / SAMPLE_RATE)
        try:
            async with asyncio.timeout(self._rules.deadline_seconds), self._turn:
                if await self._pool.starting():
                    return self._missing(final.segment, STARTING)
                reply = await self._reply(ended)
                self._state = reply.state
            if not reply.turns:
                return self._missing(final.segment, NOBODY)
            return await self._event(final, ended, reply)
        finally:
            self._words.pop(final.segment, None)

    async def _reply(self, ended: EndedSegment) -> DiarizeReply:
        pcm = ended.segment.audio.pcm(0, ended.samples)
        request = DiarizeRequest(
            session=self._opened.session,
            tenant=self._opened.tenant,
            pcm=pcm.astype("<i2", copy=False).tobytes(),
            state=self._state,
            max_speakers=self._most,
            background=self._opened.background,
            trace=self._opened.trace,
        )
        seconds = self._rules.deadline_seconds
        return await self._pool.ask(request, DiarizeReply, seconds, "diarizing")

    async def _event(
        self, final: SegmentFinal, ended: EndedSegment, reply: DiarizeReply
    ) -> SegmentSpeakers:
        """Return the event of a segment that has speakers, once its words are known."""
        start, waiting = ended.segment.start, self._words.get(final.segment)
        words = () if waiting is None else (await waiting).words
        said = [(w.text, (w.start_ms + w.end_ms) * SAMPLE_RATE / 2000) for w in words]
        if not said:
            said = self._by_grid(final, ended)
        aligned = bool(words) and waiting is not None and waiting.result().source == "aligned"
        parts = spoken_parts(reply.turns, start, said, final.text)
        source: WordSource = "aligned" if aligned else "commit_grid"
        return SegmentSpeakers(final.segment, parts, source, state=self._state)

    def _by_grid(self, final: SegmentFinal, ended: EndedSegment) -> list[Said]:
        split = [piece.text for piece in pieces(final.text)]
        if not split:
            return []
        stability = ended.segment.stability
        tokens = self._prompt.pieces(stability.tokens, self._language)
        heard = heard_by(tokens, stability.established)
        return grid_times(split, heard, ended.segment.start, ended.samples)
