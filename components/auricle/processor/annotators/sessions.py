"""Optional annotations of a session's text: words, speakers, translations."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from auricle.annotation.speakers.model import NO_SPEAKER_MODEL
from auricle.annotation.translation.targets import NO_DIRECTIONS, NO_TRANSLATOR, Directions
from auricle.annotation.translation.text import Rule, agreement, mask
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import BadRequest
from auricle.load.meters import DemandMeter
from auricle.load.pools import SPEAKERS, TRANSLATIONS, WORDS
from auricle.processor.annotators.annotator import AnnotationRules
from auricle.processor.annotators.speakers import SessionSpeakers, SpeakerRules
from auricle.processor.annotators.speech_translations import (
    SPEECH_TRANSLATIONS,
    SpeechTranslations,
    SpeechTranslator,
)
from auricle.processor.annotators.translations import (
    SessionTranslations,
    TranslationRules,
)
from auricle.processor.annotators.words import SessionWords, WordAligner
from auricle.processor.pools import Pool
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol.sessions import OpenSession, SessionEvent
from auricle.transcript.words import NO_ALIGNER

# Names under which demand is counted.
ANNOTATIONS = (WORDS, SPEAKERS, TRANSLATIONS, SPEECH_TRANSLATIONS)


class SessionAnnotator(Protocol):
    """Adds annotations to a session's events."""

    def ended(self, ended: EndedSegment) -> None:
        """Accept an ended segment, whose final follows."""
        ...

    def merged(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and the annotations."""
        ...


@dataclass(frozen=True)
class Annotators:
    """The optional pools of annotations; None for each that is not configured."""

    settings: ProcessorSettings
    prompt: PromptFormat
    demand: DemandMeter = field(default_factory=DemandMeter)
    aligner: WordAligner | None = None
    diarizer: Pool | None = None
    translator: Pool | None = None
    speech_translator: SpeechTranslator | None = None
    directions: Directions = NO_DIRECTIONS

    def requested(self, request: OpenSession) -> dict[str, SessionAnnotator]:
        """Return the annotators that a session requests, by name.

        Raises BadRequest if the pool of one is not configured.
        """
        found: dict[str, SessionAnnotator] = {}
        if request.words:
            found[WORDS] = self._words(request)
        if request.diarize:
            found[SPEAKERS] = self._speakers(request)
        self.directions.check(request.translate, None)
        if by_pool := self.directions.of_pool(request.translate):
            found[TRANSLATIONS] = self._translations(replace(request, translate=by_pool))
        if by_pool != request.translate:
            found[SPEECH_TRANSLATIONS] = self._speech_translations(request)
        return found

    def _words(self, request: OpenSession) -> SessionWords:
        if self.aligner is None:
            raise BadRequest(NO_ALIGNER)
        rules = AnnotationRules(self.settings.words_deadline_seconds, self.settings.words_at_a_time)
        return SessionWords(request, rules, self.aligner, self.demand)

    def _speakers(self, request: OpenSession) -> SessionSpeakers:
        if self.diarizer is None:
            raise BadRequest(NO_SPEAKER_MODEL)
        settings, prompt = self.settings, self.prompt
        rules = SpeakerRules(
            settings.speakers_deadline_seconds, settings.speakers_at_a_time, settings.max_speakers
        )
        language = prompt.check_language(request.language)
        return SessionSpeakers(request, rules, self.diarizer, prompt, language, self.demand)

    def _translations(self, request: OpenSession) -> SessionTranslations:
        if self.translator is None:
            raise BadRequest(NO_TRANSLATOR)
        return SessionTranslations(request, self._translation_rules, self.translator, self.demand)

    def _speech_translations(self, request: OpenSession) -> SpeechTranslations:
        if self.speech_translator is None:
            raise BadRequest(NO_TRANSLATOR)
        return SpeechTranslations(request, self._translation_rules, self.speech_translator)

    @property
    def _translation_rules(self) -> TranslationRules:
        settings = self.settings
        return TranslationRules(
            settings.translation_deadline_seconds,
            settings.translations_at_a_time,
            translation_rule(settings),
        )


def translation_rule(settings: ProcessorSettings) -> Rule:
    """Return the configured commit rule of translations."""
    if settings.translation_policy == "agreement":
        return agreement
    return mask(settings.translation_mask_words)
