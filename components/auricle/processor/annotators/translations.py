"""Inserts translations into a session's events; no text waits for them.

Each target language has one request in progress at a time. Committed text of a translation is never
revised, whichever process fails: it is in the resume point, and each request repeats it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from auricle.annotation.translation.text import Rule, whole_words
from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import run_until
from auricle.load.meters import DemandMeter
from auricle.load.pools import TRANSLATIONS
from auricle.processor.annotators.annotator import FAILED, STARTING, AnnotationRules, or_missing
from auricle.processor.annotators.events import Last, LateEvents
from auricle.processor.annotators.translation_target import Source, TranslationTarget, request_for
from auricle.processor.pools import Pool
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol.annotation import SegmentTranslation, TranslateReply
from auricle.protocol.sessions import (
    HandedOver,
    OpenSession,
    SegmentFinal,
    SegmentPartial,
    SessionEvent,
    SessionReady,
)


@dataclass(frozen=True)
class TranslationRules(AnnotationRules):
    """`rule` returns the part of a hypothesis that is committed before the text is final."""

    rule: Rule


class SessionTranslations:
    """Inserts the translations of one session into its events. Used on the event loop."""

    def __init__(
        self,
        opened: OpenSession,
        rules: TranslationRules,
        pool: Pool,
        demand: DemandMeter,
    ) -> None:
        self._opened = opened
        self._rules = rules
        self._demand = demand
        self._late = LateEvents[str]()
        begun = opened.resume.translations
        self._languages = [
            _Language(
                TranslationTarget(code, rules.rule, rules.at_a_time, begun),
                *(opened, rules.deadline_seconds, pool, self._late),
            )
            for code in opened.translate
        ]

    def ended(self, ended: EndedSegment) -> None:
        """Count the demand of an ended segment, whose final follows."""
        seconds = len(self._languages) * ended.samples / SAMPLE_RATE
        self._demand.speech(TRANSLATIONS, seconds)

    async def merged(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its translations, which delay no event except Done.

        Each segment has its own deadline.
        """
        try:
            async with aclosing(self._late.merged(events, self._seen, self._lost)) as merged:
                async for event in merged:
                    yield event
        finally:
            for language in self._languages:
                language.close()

    def _seen(self, event: SessionEvent) -> SessionEvent:
        for language in self._languages:
            language.seen(event)
        return event

    def _lost(self, code: str, last: Last) -> list[SessionEvent]:
        if isinstance(last, HandedOver):  # the session's next processor translates the rest
            return []
        language = next(one for one in self._languages if one.target.language == code)
        return [*language.target.all_gone(FAILED)]


class _Language:
    """The work for one target language: a task that runs while there is text to translate."""

    def __init__(
        self,
        target: TranslationTarget,
        opened: OpenSession,
        seconds: float,
        pool: Pool,
        late: LateEvents[str],
    ) -> None:
        self.target = target
        self._opened = opened
        self._seconds = seconds
        self._pool = pool
        # Stays on one worker, which has the prompt's KV, while it answers.
        self._placement = pool.placement()
        self._late = late
        self._too_old = asyncio.Event()  # the answer that an open segment waits for

    def close(self) -> None:
        """Release the worker."""
        self._placement.leave()

    def seen(self, event: SessionEvent) -> None:
        """Take an event of the session."""
        by = asyncio.get_running_loop().time() + self._seconds
        if isinstance(event, SessionReady):
            for one in self._opened.resume.translations.untranslated:
                if one.language == self.target.language and one.source:
                    self.target.resume(one, by)
        elif isinstance(event, SegmentPartial):
            text = whole_words(event.committed, event.partial)
            self.target.grown(event.segment, text, event.language)
        elif isinstance(event, SegmentFinal):
            instead = self.target.ended(event.segment, event.text, event.language, by)
            if instead is not None:
                self._late.add(instead)
            self._too_old.set()
        if self.target.language not in self._late and self.target.next() is not None:
            self._late.start(self.target.language, self._work, "translation")

    async def _work(self) -> None:
        while (source := self.target.next()) is not None:
            await self._translate(source)

    async def _translate(self, source: Source) -> None:
        whole = source.whole
        missing = partial(self.target.failed, source, whole)
        what = f"segment {source.segment} is not translated"
        event = await or_missing(self._answer(source, whole), missing, what)
        if event is not None:
            self._late.add(event)

    async def _answer(self, source: Source, whole: bool) -> SegmentTranslation | None:
        if await self._pool.starting():
            return self.target.failed(source, whole, STARTING)
        reply = await self._reply(source, whole)
        return None if reply is None else self.target.answered(source, whole, reply)

    async def _reply(self, source: Source, whole: bool) -> TranslateReply | None:
        """Request a segment's translation; return None if its text became final meanwhile."""
        source.requested_text = source.text
        request = request_for(self._opened, self.target, source, whole=whole)
        ask = partial(self._placement.ask, request, TranslateReply)
        if whole:
            left = max(source.by - asyncio.get_running_loop().time(), 0.0)
            return await ask(left, "translating")
        self._too_old.clear()
        asking = ask(self._seconds, "translating", wait_for_room=False)
        return await run_until(self._too_old, asking)
