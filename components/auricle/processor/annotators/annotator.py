"""Annotates a session's finals: each is followed by an event of its own; no text waits for it."""

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
# Why an annotation is missing; otherwise it is the code of the error that was last.
BUSY, NO_AUDIO, MOVED, FAILED, STARTING, LATE = (
    *("overloaded", "no_audio", "handed_over", "session_failed", "starting", "deadline"),
)


@dataclass(frozen=True)
class AnnotationRules:
    """An annotation is missing `deadline_seconds` after its final; `at_a_time` may wait."""

    deadline_seconds: float
    at_a_time: int


class Annotator:
    """Puts annotations of one session's finals between its other events.

    Subclasses say what an annotation is. Used on the event loop.
    """

    name: ClassVar[str]  # of what is made
    absence: ClassVar[str]  # what the log says of a segment without it

    def __init__(self, opened: OpenSession, rules: AnnotationRules) -> None:
        self._opened = opened
        self._rules = rules
        self._ended: dict[int, EndedSegment] = {}  # until their final
        self._late = LateEvents[int]()

    def ended(self, ended: EndedSegment) -> None:
        """A segment has ended; its final follows."""
        self._ended[ended.segment.number] = ended

    def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and the annotations, which never hold up another event.

        Only Done waits, for what is still under way; each segment has a deadline of its own.
        """
        return self._late.among(events, self._seen, self._lost)

    async def _annotate(self, final: SegmentFinal, ended: EndedSegment) -> SessionEvent:
        """Make the annotation of a final. It may raise, and TimeoutError at the deadline."""
        raise NotImplementedError

    def _missing(self, segment: int, why: str) -> SessionEvent:
        """Return the event that says why a segment has no annotation."""
        raise NotImplementedError

    def _at_once(self, _final: SegmentFinal, _ended: EndedSegment | None) -> SessionEvent | None:
        """Return the annotation of a final for which nothing needs to be asked."""
        return None

    def _seen(self, event: SessionEvent) -> SessionEvent:
        """Return an event of the session as it is sent."""
        if isinstance(event, SegmentFinal):
            self._begin(event)
        return event

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        """Return what is sent instead of an annotation when the session ends before it."""
        return [self._missing(segment, MOVED if isinstance(last, HandedOver) else FAILED)]

    def _begin(self, final: SegmentFinal) -> None:
        """Ask for the annotation of a final, or say at once why there is none."""
        ended = self._ended.pop(final.segment, None)
        if not final.text:
            return
        if (event := self._at_once(final, ended)) is not None:
            self._late.tell(event)
        elif ended is None:  # all its text was committed on another processor
            self._late.tell(self._missing(final.segment, NO_AUDIO))
        elif len(self._late) >= self._rules.at_a_time:
            self._late.tell(self._missing(final.segment, BUSY))
        else:
            self._late.start(final.segment, partial(self._make, final, ended), self.name)

    async def _make(self, final: SegmentFinal, ended: EndedSegment) -> SessionEvent:
        missing = partial(self._missing, final.segment)
        what = f"segment {final.segment} {self.absence}"
        return await or_missing(self._annotate(final, ended), missing, what)


async def or_missing(making: Awaitable[T], missing: Callable[[str], T], what: str) -> T:
    """Return what `making` does, or what says why it is `missing`; never raises.

    The session goes on: it must not wait for an event that never comes. The log says `what` failed.
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
