"""The queue of segments to be translated into one target language. No I/O, no clock.

Segments are translated in order. Of the open segment only the newest text is translated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from auricle.annotation.translation.targets import CUT, SAME
from auricle.annotation.translation.text import GrowingTranslation, Pairs, Rule, followed
from auricle.checkpoints.languages import language_code
from auricle.protocol.annotation import (
    SegmentTranslation,
    TranslateReply,
    TranslateRequest,
    Translating,
    Untranslated,
)
from auricle.protocol.sessions import OpenSession

BUSY = "overloaded"


@dataclass(eq=False)
class Source:
    """A segment: its text so far, and whether it is `whole`; `by` is its translation's deadline.

    `requested_text` is the text of the last request. Unless `hopeful`, requests wait until the
    text is whole.
    """

    segment: int
    translation: GrowingTranslation
    text: str = ""
    language: str = ""
    whole: bool = False
    by: float = 0.0
    requested_text: str = ""
    hopeful: bool = True


class TranslationTarget:
    """Segments to be translated into `language`, and the events of their translations."""

    def __init__(self, language: str, rule: Rule, most_waiting: int, begun: Translating) -> None:
        """`begun` is the state when the session came to this processor; at most `most_waiting`
        final segments wait for their translations."""
        self.language = language
        self.context: Pairs = begun.before.get(language, ())
        self._rule = rule
        self._most = most_waiting
        self._sources: deque[Source] = deque()
        self._begun = {
            one.segment: one.committed
            for one in begun.untranslated
            if one.language == language and not one.source
        }

    def resume(self, one: Untranslated, by: float) -> None:
        """Continue a segment whose text became final on another processor."""
        translation = GrowingTranslation(one.committed, one.committed)
        self._sources.append(Source(one.segment, translation, one.source, one.spoken, True, by))

    def grown(self, segment: int, text: str, language: str) -> None:
        """Set the open segment's text so far, whole words only."""
        source = self._source(segment)
        if len(text) > len(source.text):
            source.text, source.language = text, language

    def ended(self, segment: int, text: str, language: str, by: float) -> SegmentTranslation | None:
        """Set the segment's final text. Return the last event if it is not translated."""
        source = self._source(segment)
        source.text, source.language = text, language
        missing = ""
        if not text:
            self._sources.remove(source)
            return None
        if language_code(language) == self.language:
            missing = SAME
        elif sum(one.whole for one in self._sources) >= self._most:
            missing = BUSY
        if missing:
            return self.gone(source, missing)
        source.whole, source.by = True, by
        return None

    def next(self) -> Source | None:
        """Return the oldest segment to translate now; None if more text must come first."""
        return next((one for one in self._sources if one.whole or _worth_asking(one, self)), None)

    def answered(
        self, source: Source, whole: bool, reply: TranslateReply
    ) -> SegmentTranslation | None:
        """Take the answer to a request, made when `source` was `whole` or not; return its event.

        An answer without new text has an event only if it is the last one.
        """
        if source not in self._sources:
            return None
        before = source.translation
        source.translation = before.after(reply.text, self._rule, whole=whole)
        if whole:
            cut = CUT if reply.finish == "length" else ""
            if not cut:
                self.context = followed(self.context, source.text, source.translation.committed)
            return self.gone(source, cut)
        if source.translation == before:
            return None
        return self._event(source)

    def failed(self, source: Source, whole: bool, code: str) -> SegmentTranslation | None:
        """Take a request's failure after all retries; return its event."""
        if whole:
            return self.gone(source, code)
        source.hopeful = code == BUSY  # a full pool may have room for more text, later
        return None

    def gone(self, source: Source, missing: str = "") -> SegmentTranslation:
        """Forget a segment, and return its last event."""
        self._sources.remove(source)
        committed = source.translation.committed
        return SegmentTranslation(
            source.segment, self.language, committed, final=True, missing=missing
        )

    def all_gone(self, missing: str) -> list[SegmentTranslation]:
        """Forget all segments, and return the last events of those whose text is final."""
        return [self.gone(one, missing) for one in list(self._sources) if one.whole]

    def _event(self, source: Source) -> SegmentTranslation:
        translation = source.translation
        return SegmentTranslation(
            source.segment, self.language, translation.committed, translation.partial
        )

    def _source(self, segment: int) -> Source:
        if self._sources and self._sources[-1].segment == segment:
            return self._sources[-1]
        committed = self._begun.pop(segment, "")
        self._sources.append(Source(segment, GrowingTranslation(committed, committed)))
        return self._sources[-1]


def request_for(
    opened: OpenSession, target: TranslationTarget, source: Source, *, whole: bool
) -> TranslateRequest:
    """Return the request for a segment's translation, which continues its committed text."""
    return TranslateRequest(
        session=opened.session,
        tenant=opened.tenant,
        source_language=language_code(source.language) or source.language,
        target=target.language,
        source=source.text,
        context=target.context,
        terms=tuple(opened.terms.get(target.language, {}).items()),
        answer=source.translation.committed,
        draft=source.translation.partial,
        whole=whole,
        background=opened.background,
        trace=opened.trace,
    )


def _worth_asking(source: Source, target: TranslationTarget) -> bool:
    return (
        source.hopeful
        and source.text != source.requested_text
        and language_code(source.language) != target.language
    )
