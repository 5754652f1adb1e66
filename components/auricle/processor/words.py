"""A session's words: each final with text is followed by its own, and no text waits for them."""

from __future__ import annotations

from msgspec.structs import replace

from auricle.alignment.words import pieces
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.load.asked_meter import AskedMeter
from auricle.messages.sessions import Final, OpenSession, SessionEvent, Words
from auricle.processor.aligner import Spoken, WordAligner
from auricle.processor.annotator import STARTING, AnnotationRules, Annotator
from auricle.processor.open_segment import EndedSegment
from auricle.processor.word_times import aligned

LANGUAGE = "language"  # why a segment has no aligned times
ASKED = "words"  # of the pools beside the path


class SessionWords(Annotator):
    """Puts the words of one session between its other events.

    Finals must have words with the times of decodes, whose confidence those that follow have.
    """

    name = ASKED
    absence = "has no words"

    def __init__(
        self,
        opened: OpenSession,
        rules: AnnotationRules,
        aligner: WordAligner,
        asked: AskedMeter,
    ) -> None:
        """`asked` counts what is asked of the pool."""
        super().__init__(opened, rules)
        self._asked = asked
        self._aligner = aligner

    def _seen(self, event: SessionEvent) -> SessionEvent:
        super()._seen(event)
        # Its rough words only if they were asked for as well.
        if isinstance(event, Final) and event.words and not self._opened.grid_words:
            return replace(event, words=())
        return event

    def _missing(self, segment: int, why: str) -> Words:
        return Words(segment, missing=why)

    def _at_once(self, final: Final, ended: EndedSegment | None) -> Words | None:
        if not pieces(final.text, final.language):  # punctuation only
            return Words(final.segment, (), "aligned")
        if ended is None:
            return None
        if self._opened.to_english or not self._aligner.aligns(final.language):
            return Words(final.segment, final.words, "commit_grid", LANGUAGE)
        return None

    async def _annotate(self, final: Final, ended: EndedSegment) -> Words:
        split = pieces(final.text, final.language)
        spoken = Spoken(
            session=self._opened.session,
            tenant=self._opened.tenant,
            audio=ended.segment.audio,
            samples=ended.samples,
            audio_ms=milliseconds(ended.samples),
            words=tuple(piece.word for piece in split),
            background=self._opened.background,
            trace=self._opened.trace,
            texts=tuple(piece.text for piece in split),
            language=final.language,
            encoder=ended.encoder,
        )
        self._asked.speech(ASKED, ended.samples / SAMPLE_RATE)
        if await self._aligner.starting():
            return self._missing(final.segment, STARTING)
        times = await self._aligner.times(spoken, self._rules.deadline_seconds)
        confidences = [word.confidence for word in final.words] or [None] * len(split)
        return aligned(final.segment, ended.segment.start, split, times, confidences)
