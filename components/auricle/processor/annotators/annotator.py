"""Base of annotators: each final is followed by an annotation, and no text waits for it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from auricle.core.errors import AuricleError
from auricle.processor.annotators.events import Last, LateEvents
from auricle.processor.session.open_segment import EndedSegment
from auricle.protocol.sessions import HandedOver, OpenSession, SegmentFinal, SessionEvent

log = logging.getLogger(__name__)
T = TypeVar("T")
# Reasons why an annotation is missing; any other reason is the code of the last error.
BUSY, NO_AUDIO, MOVED, FAILED, STARTING, LATE = (
    *("overloaded", "no_audio", "handed_over", "session_failed", "starting", "deadline"),
)


@dataclass(frozen=True)
class AnnotationRules:
    """An annotation is missing `deadline_seconds` after its final; `at_a_time` may wait."""

    deadline_seconds: float
    at_a_time: int


class Annotator:
    """Inserts annotations of one session's finals into its events.

    Subclasses make the annotations. Used on the event loop.
    """

    name: ClassVar[str]  # of its tasks
    absence: ClassVar[str]  # end of the log line about a segment without an annotation

    def __init__(self, opened: OpenSession, rules: AnnotationRules) -> None:
        self._opened = opened
        self._rules = rules
        self._ended: dict[int, EndedSegment] = {}  # until their final
        self._late = LateEvents[int]()

    def ended(self, ended: EndedSegment) -> None:
        """Accept an ended segment, whose final follows."""
        self._ended[ended.segment.number] = ended

    def merged(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and the annotations, which delay no event except Done.

        Each segment has its own deadline.
        """
        return self._late.merged(events, self._seen, self._lost)

    async def _annotate(self, final: SegmentFinal, ended: EndedSegment) -> SessionEvent:
        """Make the annotation of a final. It may raise, and TimeoutError at the deadline."""
        raise NotImplementedError

    def _missing(self, segment: int, why: str) -> SessionEvent:
        """Return the event that reports why a segment has no annotation."""
        raise NotImplementedError

    def _at_once(self, _final: SegmentFinal, _ended: EndedSegment | None) -> SessionEvent | None:
        """Return the annotation of a final that needs no request."""
        return None

    def _seen(self, event: SessionEvent) -> SessionEvent:
        """Return a session event in the form in which it is sent."""
        if isinstance(event, SegmentFinal):
            self._begin(event)
        return event

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        """Return the replacement of an annotation if the session ends before it."""
        return [self._missing(segment, MOVED if isinstance(last, HandedOver) else FAILED)]

    def _begin(self, final: SegmentFinal) -> None:
        """Request the annotation of a final, or report at once why it is missing."""
        ended = self._ended.pop(final.segment, None)
        if not final.text:
            return
        if (event := self._at_once(final, ended)) is not None:
            self._late.add(event)
        elif ended is None:  # all its text was committed on another processor
            self._late.add(self._missing(final.segment, NO_AUDIO))
        elif len(self._late) >= self._rules.at_a_time:
            self._late.add(self._missing(final.segment, BUSY))
        else:
            self._late.start(final.segment, partial(self._make, final, ended), self.name)

    async def _make(self, final: SegmentFinal, ended: EndedSegment) -> SessionEvent:
        missing = partial(self._missing, final.segment)
        what = f"segment {final.segment} {self.absence}"
        return await or_missing(self._annotate(final, ended), missing, what)


async def or_missing(making: Awaitable[T], missing: Callable[[str], T], what: str) -> T:
    """Return the result of `making`; if it fails, log `what` and return `missing(reason)`.

    Never raises, as the session would wait for the event for ever.
    """
    try:
        return await making
    except AuricleError as error:
        log.warning("%s: %s", what, error)
        return missing(error.code)
    except TimeoutError:
        return missing(LATE)
    except Exception:
        log.exception("%s", what)
        return missing(AuricleError.code)
