"""Each final of a session is followed by its English, which the speech model writes itself.

It comes once the text is final, and no text waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from auricle.annotation.translation.targets import CUT, ENGLISH, SAME
from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoints.languages import language_code
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.process.tracing import OFF, Tracer
from auricle.processor.annotators.annotator import NO_AUDIO, AnnotationRules, Annotator
from auricle.processor.annotators.events import Last
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.processor.session.actions import DecodeTask
from auricle.processor.session.open_segment import EndedSegment, OpenSegment
from auricle.processor.session.stability import loop_start
from auricle.processor.usage import UsageMeter
from auricle.protocol.annotation import SegmentTranslation, Untranslated
from auricle.protocol.sessions import (
    HandedOver,
    OpenSession,
    SegmentFinal,
    SessionEvent,
    SessionReady,
)

# Has the PD pool write English for a segment whose speech is in another language.


@dataclass(frozen=True)
class English:
    """A translation; `whole` unless the answer met its limit or repeated itself."""

    text: str
    whole: bool


class SpeechTranslator:
    """Translates segments of all sessions of a processor, with one more decode of each.

    The encoder's output for a segment is usually there still. Runs on the event loop.
    """

    def __init__(
        self,
        prompt: PromptFormat,
        settings: ProcessorSettings,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        tracer: Tracer = OFF,
    ) -> None:
        """Raises BadRequest if the checkpoint of `prompt` does not translate."""
        self._prompt = prompt.translating()
        self._settings = settings
        self._pools = encode_pool, pd_pool
        self._tracer = tracer

    async def english(
        self,
        opened: OpenSession,
        segment: OpenSegment,
        samples: int,
        language: str,
    ) -> English:
        """Translate the first `samples` samples of a segment in `language`, a name.

        It yields to live sessions, as text does not wait for it. Raises AuricleError.
        """
        limit = int(self._settings.max_tokens_per_second * samples / SAMPLE_RATE)
        task = DecodeTask(
            head=self._prompt.head(""),
            tail=self._prompt.tail(language),
            max_tokens=max(limit, self._settings.min_new_tokens),
            final=True,
            trace=opened.trace,
        )
        recognizer = Recognizer(
            # A decode of this name does not end the session's open segment.
            f"{opened.session}-english",
            opened.tenant,
            *self._pools,
            background=True,
            tracer=self._tracer,
        )
        try:
            reply = await recognizer.decode(segment.audio, samples, task, UsageMeter())
        finally:
            recognizer.close()
        repeats = loop_start(reply.tokens)
        _, text = self._prompt.answer(reply.tokens[:repeats], language)
        return English(text, repeats is None and reply.finish != "length")


SPEECH_TRANSLATIONS = "speech_translations"


class SpeechTranslations(Annotator):
    """Inserts the translations of one session into its events."""

    name = "translation"
    absence = "is not translated"

    def __init__(
        self, opened: OpenSession, rules: AnnotationRules, translator: SpeechTranslator
    ) -> None:
        super().__init__(opened, rules)
        self._translator = translator
        self._turn = asyncio.Lock()  # first come, first served

    def _seen(self, event: SessionEvent) -> SessionEvent:
        if isinstance(event, SessionReady):
            for one in self._opened.resume.translations.untranslated:
                if one.language == ENGLISH and one.source:
                    self._late.add(_of_another(one))
        return super()._seen(event)

    def _missing(self, segment: int, why: str) -> SegmentTranslation:
        return SegmentTranslation(segment, ENGLISH, "", final=True, missing=why)

    def _at_once(
        self, final: SegmentFinal, _ended: EndedSegment | None
    ) -> SegmentTranslation | None:
        same = language_code(final.language) == ENGLISH
        return self._missing(final.segment, SAME) if same else None

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        # The session's next processor reports the missing ones.
        return [] if isinstance(last, HandedOver) else super()._lost(segment, last)

    async def _annotate(self, final: SegmentFinal, ended: EndedSegment) -> SegmentTranslation:
        async with asyncio.timeout(self._rules.deadline_seconds), self._turn:
            english = await self._translator.english(
                self._opened, ended.segment, ended.samples, final.language
            )
        missing = "" if english.whole else CUT
        return SegmentTranslation(final.segment, ENGLISH, english.text, final=True, missing=missing)


def _of_another(one: Untranslated) -> SegmentTranslation:
    """Return the last event of a segment whose text became final on another processor."""
    return SegmentTranslation(one.segment, ENGLISH, one.committed, final=True, missing=NO_AUDIO)
