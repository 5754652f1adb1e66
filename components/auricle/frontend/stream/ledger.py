"""What one client has been told, and from where its session can go on after that. No I/O, no clock.

After any message, `state` is what another frontend needs to tell the client the rest: nothing of
what it was told, and everything else. What was found but not told is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.line.told_translations import ToldTranslations
from auricle.frontend.listening.point import ListeningPoint
from auricle.messages.sessions import Final, Partial, ResumePoint
from auricle.messages.speakers import Speakers
from auricle.messages.translations import Translation
from auricle.text_bounds import CONTEXT

# Listening points are so far apart: more of them would cost memory, fewer make clients send more
# audio again. With more than so many (the segment is that long), every second one is left out.
_APART = SAMPLE_RATE
_MOST_POINTS = 512
# A client hears at least once in so much audio from where it must keep it.
_LONGEST_UNTOLD = 10 * SAMPLE_RATE


class Told(msgspec.Struct, frozen=True, array_like=True):
    """A session after a message to its client.

    `point` is the processor's, after the last text told; `told_ms` is that text's `audio_ms`, if
    the segment is still open, else -1. `marks` starts and stops of speech were told, of which
    `marks_before` came before `listening`. `heard` are the 16 kHz samples that the client had
    sent, and that were charged, as `ListeningPoint.heard` counts them.
    """

    point: ResumePoint = ResumePoint()
    told_ms: int = -1
    listening: ListeningPoint = ListeningPoint()
    marks_before: int = 0
    marks: int = 0
    heard: int = 0


NOTHING = Told()


class Ledger:
    """Keeps what one client was told, in the order in which it was told. Not thread-safe."""

    def __init__(self, begun: Told = NOTHING, translate: Sequence[str] = ()) -> None:
        """The session goes on after `begun`, and is translated into the languages `translate`."""
        self._translations = ToldTranslations(translate, begun.point.translations)
        self._point = begun.point
        self._told_ms = begun.told_ms
        self._heard = begun.heard
        self._marks = begun.marks
        self._found = begun.marks_before  # starts and stops found, told or not
        # Where listening can go on, ascending, and how many marks were found before.
        self._points = [(begun.listening, begun.marks_before)]
        self._pointed_at = begun.listening.heard
        self._stated_at = begun.heard

    def listened(
        self, heard: int, point: Callable[[], ListeningPoint | None], *, ended: bool = False
    ) -> int:
        """The client has sent `heard` samples; listening can go on at `point()`, if it gives one.

        `ended`: nothing is passed on after this point, so it is kept however near the last one.
        Returns how many of the samples are new: they were not sent on a connection before.
        """
        new = max(0, heard - self._heard)
        self._heard += new
        if (ended or heard - self._pointed_at >= _APART) and (found := point()) is not None:
            self._pointed_at = heard
            self._points.append((found, self._found))
            self._forget()
            if len(self._points) > _MOST_POINTS:
                del self._points[1::2]
        return new

    def found_mark(self) -> bool:
        """Speech has started or stopped; return whether the client is to be told."""
        self._found += 1
        return self._found > self._marks

    def told_mark(self) -> None:
        """The client is told the next start or stop of speech."""
        self._marks += 1

    def new(self, event: Partial | Final) -> bool:
        """Whether the client has not been told this, or more, already."""
        if event.segment != self._point.segment:
            return event.segment > self._point.segment
        return isinstance(event, Final) or event.audio_ms > self._told_ms

    def told(self, event: Partial | Final) -> None:
        """The client is told this text."""
        self._point = event.resume
        self._told_ms = event.audio_ms if isinstance(event, Partial) else -1
        if isinstance(event, Final):
            self._translations.final(event)
        self._forget()

    def told_speakers(self, event: Speakers) -> None:
        """The client is told who spoke, which who goes on with the session must know."""
        self._point = replace(self._point, speakers=event.state)

    def told_translation(self, event: Translation) -> None:
        """The client is told a part of a translation."""
        self._translations.translation(event)

    @property
    def due(self) -> bool:
        """Whether the client must be told from where to keep audio, though there is no news."""
        return self._heard - self._stated_at >= _LONGEST_UNTOLD

    def state(self) -> Told:
        """Return the session as it is after the message that is being made."""
        listening, before = self._points[0]
        self._stated_at = self._heard
        # Processors use less than that of the text before.
        context, translations = self._point.context[-CONTEXT:], self._translations.state()
        return Told(
            replace(self._point, context=context, translations=translations),
            *(self._told_ms, listening, before, self._marks, self._heard),
        )

    def _forget(self) -> None:
        """Drop points before the last one from which everything that is not told is found again."""
        usable = 0
        while (
            usable + 1 < len(self._points)
            and self._points[usable + 1][0].passed <= self._point.segment_start
        ):
            usable += 1
        del self._points[:usable]
