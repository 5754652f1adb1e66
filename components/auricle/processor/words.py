"""A session's words: each final with text is followed by its own, and no text waits for them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from auricle.alignment.words import Piece, pieces
from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.errors import AuricleError
from auricle.load.asked_meter import AskedMeter
from auricle.messages import Final, HandedOver, OpenSession, SessionEvent, Words
from auricle.processor.aligner import Spoken, WordAligner
from auricle.processor.late_events import Last, LateEvents
from auricle.processor.open_segment import OpenSegment
from auricle.processor.word_times import absent, aligned

log = logging.getLogger(__name__)
# Why a segment has no aligned times; otherwise it is the code of the error that was last.
LANGUAGE, BUSY, NO_AUDIO, MOVED, FAILED, STARTING = (
    *("language", "overloaded", "no_audio", "handed_over", "session_failed", "starting"),
)
ASKED = "words"  # of the pools beside the path


@dataclass(frozen=True)
class WordRules:
    """Words are missing `deadline_seconds` after their final; `at_a_time` segments may wait."""

    deadline_seconds: float
    at_a_time: int


class SessionWords:
    """Puts the words of one session between its other events. Used on the event loop."""

    def __init__(
        self,
        opened: OpenSession,
        rules: WordRules,
        aligner: WordAligner,
        asked: AskedMeter,
    ) -> None:
        """`asked` counts what is asked of the pool."""
        self._asked = asked
        self._opened = opened
        self._rules = rules
        self._aligner = aligner
        self._segments: dict[int, tuple[OpenSegment, int]] = {}  # that ended, until their final
        self._late = LateEvents[int]()

    def ended(self, segment: OpenSegment, samples: int) -> None:
        """A segment has ended after `samples`; its final follows."""
        self._segments[segment.number] = (segment, samples)

    def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its words, which never hold up another event.

        Finals must have words with the times of decodes, whose confidence those that follow have.
        Only Done waits, for what is still under way; each segment has a deadline of its own.
        """
        return self._late.among(events, self._seen, self._lost)

    def _seen(self, event: SessionEvent) -> SessionEvent:
        if not isinstance(event, Final):
            return event
        self._begin(event)
        return self._plain(event)

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        return [absent(segment, MOVED if isinstance(last, HandedOver) else FAILED)]

    def _plain(self, final: Final) -> Final:
        """Return the final as it is told: its rough words only if they were asked for as well."""
        return final if self._opened.grid_words or not final.words else replace(final, words=())

    def _begin(self, final: Final) -> None:
        """Ask for the words of a final, or say at once why there are none."""
        segment = self._segments.pop(final.segment, None)
        if not final.text:
            return
        split = pieces(final.text, final.language)
        if not split:  # punctuation only
            self._late.tell(Words(final.segment, (), "aligned"))
        elif segment is None:  # all its text was committed on another processor
            self._late.tell(absent(final.segment, NO_AUDIO))
        elif self._opened.to_english or not self._aligner.aligns(final.language):
            self._late.tell(Words(final.segment, final.words, "commit_grid", LANGUAGE))
        elif len(self._late) >= self._rules.at_a_time:
            self._late.tell(absent(final.segment, BUSY))
        else:
            self._late.start(final.segment, partial(self._align, final, split, *segment), "words")

    async def _align(
        self, final: Final, split: tuple[Piece, ...], segment: OpenSegment, samples: int
    ) -> Words:
        spoken = Spoken(
            session=self._opened.session,
            tenant=self._opened.tenant,
            audio=segment.audio,
            samples=samples,
            audio_ms=milliseconds(samples),
            words=tuple(piece.word for piece in split),
            background=self._opened.background,
            trace=self._opened.trace,
            texts=tuple(piece.text for piece in split),
            language=final.language,
            encoder=segment.encoder,
        )
        self._asked.speech(ASKED, samples / SAMPLE_RATE)
        try:
            if await self._aligner.starting():
                return absent(final.segment, STARTING)
            times = await self._aligner.times(spoken, self._rules.deadline_seconds)
            confidences = [word.confidence for word in final.words] or [None] * len(split)
            return aligned(final.segment, segment.start, split, times, confidences)
        except AuricleError as error:
            log.warning("segment %d has no words: %s", final.segment, error)
            return absent(final.segment, error.code)
        except Exception:  # the session goes on; it must not wait for words that never come
            log.exception("segment %d has no words", final.segment)
            return absent(final.segment, AuricleError.code)
