"""Each final of a session is followed by its English, which the speech model writes itself.

It comes once the text is final, and no text waits for it.
"""

from __future__ import annotations

import asyncio

from auricle.checkpoint.languages import language_code
from auricle.messages.sessions import Final, HandedOver, OpenSession, SessionEvent, SessionReady
from auricle.messages.translations import Translation, Untranslated
from auricle.processor.annotator import NO_AUDIO, AnnotationRules, Annotator
from auricle.processor.late_events import Last
from auricle.processor.open_segment import EndedSegment
from auricle.processor.speech_translator import SpeechTranslator
from auricle.translation.targets import CUT, ENGLISH, SAME

SPEECH_TRANSLATIONS = "speech_translations"  # what is asked of the PD pool beside text


class SpeechTranslations(Annotator):
    """Puts the translations of one session between its other events."""

    name = "translation"
    absence = "is not translated"

    def __init__(
        self, opened: OpenSession, rules: AnnotationRules, translator: SpeechTranslator
    ) -> None:
        super().__init__(opened, rules)
        self._translator = translator
        self._turn = asyncio.Lock()  # whoever waits gets it in order

    def _seen(self, event: SessionEvent) -> SessionEvent:
        if isinstance(event, SessionReady):
            for one in self._opened.resume.translations.untranslated:
                if one.language == ENGLISH and one.source:
                    self._late.tell(_of_another(one))
        return super()._seen(event)

    def _missing(self, segment: int, why: str) -> Translation:
        return Translation(segment, ENGLISH, "", final=True, missing=why)

    def _at_once(self, final: Final, _ended: EndedSegment | None) -> Translation | None:
        same = language_code(final.language) == ENGLISH
        return self._missing(final.segment, SAME) if same else None

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        # Whoever goes on with a session says itself what is missing of it.
        return [] if isinstance(last, HandedOver) else super()._lost(segment, last)

    async def _annotate(self, final: Final, ended: EndedSegment) -> Translation:
        async with asyncio.timeout(self._rules.deadline_seconds), self._turn:
            english = await self._translator.english(
                self._opened, ended.segment, ended.samples, final.language
            )
        missing = "" if english.whole else CUT
        return Translation(final.segment, ENGLISH, english.text, final=True, missing=missing)


def _of_another(one: Untranslated) -> Translation:
    """Return the last event of a segment whose text became final on another processor."""
    return Translation(one.segment, ENGLISH, one.committed, final=True, missing=NO_AUDIO)
