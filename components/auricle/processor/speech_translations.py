"""Each final of a session is followed by its English, which the speech model writes itself.

It comes once the text is final, and no text waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import partial

from auricle.checkpoint.languages import language_code
from auricle.errors import AuricleError
from auricle.messages import (
    Final,
    HandedOver,
    OpenSession,
    SessionEvent,
    SessionReady,
    Translation,
    Untranslated,
)
from auricle.processor.late_events import Last, LateEvents
from auricle.processor.open_segment import OpenSegment
from auricle.processor.speech_translator import SpeechTranslator
from auricle.processor.target import BUSY
from auricle.processor.translations import FAILED, TranslationRules
from auricle.translation.targets import CUT, ENGLISH, SAME

log = logging.getLogger(__name__)
SPEECH_TRANSLATIONS = "speech_translations"  # what is asked of the PD pool beside text
# Why a segment is not translated, where its audio went to another processor.
NO_AUDIO = "no_audio"


class SpeechTranslations:
    """Puts the translations of one session between its other events. Used on the event loop."""

    def __init__(
        self, opened: OpenSession, rules: TranslationRules, translator: SpeechTranslator
    ) -> None:
        self._opened = opened
        self._rules = rules
        self._translator = translator
        self._segments: dict[int, tuple[OpenSegment, int]] = {}  # that ended, until their final
        self._turn = asyncio.Lock()  # whoever waits gets it in order
        self._late = LateEvents[int]()

    def ended(self, segment: OpenSegment, samples: int) -> None:
        """A segment has ended after `samples`; its final follows."""
        self._segments[segment.number] = segment, samples

    def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its translations, which never hold up another event.

        Only Done waits, for what is still under way; each segment has a deadline of its own.
        """
        return self._late.among(events, self._seen, self._lost)

    def _seen(self, event: SessionEvent) -> SessionEvent:
        if isinstance(event, SessionReady):
            for one in self._opened.resume.translations.untranslated:
                if one.language == ENGLISH and one.source:
                    self._late.tell(_of_another(one))
        elif isinstance(event, Final):
            self._begin(event)
        return event

    def _begin(self, final: Final) -> None:
        """Ask for the translation of a final, or say at once why there is none."""
        ended = self._segments.pop(final.segment, None)
        if not final.text:
            return
        if language_code(final.language) == ENGLISH:
            self._late.tell(_missing(final.segment, SAME))
        elif ended is None:  # all its text was committed on another processor
            self._late.tell(_missing(final.segment, NO_AUDIO))
        elif len(self._late) >= self._rules.at_a_time:
            self._late.tell(_missing(final.segment, BUSY))
        else:
            self._late.start(final.segment, partial(self._translate, final, *ended), "translation")

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        # Whoever goes on with a session says itself what is missing of it.
        return [] if isinstance(last, HandedOver) else [_missing(segment, FAILED)]

    async def _translate(self, final: Final, segment: OpenSegment, samples: int) -> Translation:
        try:
            async with asyncio.timeout(self._rules.deadline_seconds), self._turn:
                told = await self._translator.english(
                    self._opened, segment, samples, final.language
                )
        except AuricleError as error:
            log.warning("segment %d is not translated: %s", final.segment, error)
            return _missing(final.segment, error.code)
        except TimeoutError:
            return _missing(final.segment, "deadline")
        except Exception:  # the session goes on; it must not wait for what never comes
            log.exception("segment %d is not translated", final.segment)
            return _missing(final.segment, AuricleError.code)
        missing = "" if told.whole else CUT
        return Translation(final.segment, ENGLISH, told.text, final=True, missing=missing)


def _missing(segment: int, why: str) -> Translation:
    return Translation(segment, ENGLISH, "", final=True, missing=why)


def _of_another(one: Untranslated) -> Translation:
    """Return the last event of a segment whose text became final on another processor."""
    return Translation(one.segment, ENGLISH, one.committed, final=True, missing=NO_AUDIO)
