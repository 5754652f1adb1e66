"""A session's translations come between its other events, and no text waits for them.

Each target language has one request under way at a time. What is committed of a translation is
never taken back, whatever dies: it is known to whoever told it, and each request names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import AuricleError
from auricle.load.asked_meter import AskedMeter
from auricle.messages import (
    Final,
    HandedOver,
    OpenSession,
    Partial,
    SessionEvent,
    SessionReady,
    TranslateReply,
)
from auricle.processor.late_events import Last, LateEvents
from auricle.processor.open_segment import OpenSegment
from auricle.processor.target import Source, Target, request_for
from auricle.processor.translator import Translator
from auricle.tasks import unless
from auricle.translation.policy import Rule
from auricle.translation.words import whole_words

log = logging.getLogger(__name__)
TRANSLATIONS = "translations"  # what is asked of the pools beside the path
# Why a segment is not translated; otherwise it is the code of the error that was last, or one of
# target.py.
FAILED, STARTING = "session_failed", "starting"


@dataclass(frozen=True)
class TranslationRules:
    """A translation is missing `deadline_seconds` after its final; `at_a_time` may wait.

    `rule` says what of a hypothesis is committed before the text is final.
    """

    deadline_seconds: float
    at_a_time: int
    rule: Rule


class SessionTranslations:
    """Puts the translations of one session between its other events. Used on the event loop."""

    def __init__(
        self,
        opened: OpenSession,
        rules: TranslationRules,
        translator: Translator,
        asked: AskedMeter,
    ) -> None:
        """`asked` counts what is asked of the pool."""
        self._opened = opened
        self._rules = rules
        self._asked = asked
        self._late = LateEvents[str]()
        begun = opened.resume.translations
        self._languages = [
            _Language(
                Target(code, rules.rule, rules.at_a_time, begun),
                *(opened, rules.deadline_seconds, translator, self._late),
            )
            for code in opened.translate
        ]

    def ended(self, _segment: OpenSegment, samples: int) -> None:
        """A segment has ended after `samples`; its final follows."""
        seconds = len(self._languages) * samples / SAMPLE_RATE  # each language is work of its own
        self._asked.speech(TRANSLATIONS, seconds)

    async def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its translations, which never hold up another event.

        Only Done waits, for what is still under way; each segment has a deadline of its own.
        """
        try:
            async with aclosing(self._late.among(events, self._seen, self._lost)) as told:
                async for event in told:
                    yield event
        finally:
            for language in self._languages:
                language.close()

    def _seen(self, event: SessionEvent) -> SessionEvent:
        for language in self._languages:
            language.seen(event)
        return event

    def _lost(self, code: str, last: Last) -> list[SessionEvent]:
        if isinstance(last, HandedOver):  # whoever goes on with the session translates the rest
            return []
        language = next(one for one in self._languages if one.target.language == code)
        return [*language.target.all_gone(FAILED)]


class _Language:
    """The work for one target language: a task that runs while there is something to ask for."""

    def __init__(
        self,
        target: Target,
        opened: OpenSession,
        seconds: float,
        translator: Translator,
        late: LateEvents[str],
    ) -> None:
        self.target = target
        self._opened = opened
        self._seconds = seconds
        self._translator = translator
        self._line = translator.line()
        self._late = late
        self._too_old = asyncio.Event()  # the answer that an open segment waits for

    def close(self) -> None:
        """Release the worker."""
        self._line.close()

    def seen(self, event: SessionEvent) -> None:
        """The session tells this event."""
        by = asyncio.get_running_loop().time() + self._seconds
        if isinstance(event, SessionReady):
            for one in self._opened.resume.translations.untranslated:
                if one.language == self.target.language and one.source:
                    self.target.resume(one, by)
        elif isinstance(event, Partial):
            text = whole_words(event.committed, event.partial)
            self.target.heard(event.segment, text, event.language)
        elif isinstance(event, Final):
            instead = self.target.ended(event.segment, event.text, event.language, by)
            if instead is not None:
                self._late.tell(instead)
            self._too_old.set()
        if self.target.language not in self._late and self.target.next() is not None:
            self._late.start(self.target.language, self._work, "translation")

    async def _work(self) -> None:
        while (source := self.target.next()) is not None:
            await self._translate(source)

    async def _translate(self, source: Source) -> None:
        whole = source.whole
        told = None
        try:
            if await self._translator.starting():
                told = self.target.failed(source, whole, STARTING)
            elif (reply := await self._reply(source, whole)) is not None:
                told = self.target.answered(source, whole, reply)
        except AuricleError as error:
            log.warning("segment %d is not translated: %s", source.segment, error)
            told = self.target.failed(source, whole, error.code)
        except Exception:  # the session goes on; it must not wait for what never comes
            log.exception("segment %d is not translated", source.segment)
            told = self.target.failed(source, whole, AuricleError.code)
        if told is not None:
            self._late.tell(told)

    async def _reply(self, source: Source, whole: bool) -> TranslateReply | None:
        """Ask for a segment; return None if its text became final meanwhile."""
        source.asked = source.text
        request = request_for(self._opened, self.target, source, whole=whole)
        if whole:
            left = max(source.by - asyncio.get_running_loop().time(), 0.0)
            return await self._line.reply(request, left, wait_for_room=True)
        self._too_old.clear()
        asking = self._line.reply(request, self._seconds, wait_for_room=False)
        return await unless(self._too_old, asking)
