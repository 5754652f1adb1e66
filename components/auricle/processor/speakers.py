"""A session's speakers: each final with text is followed by who said what; no text waits for it.

Segments are diarized one after the other, because each needs the voices that are known after the
one before. These are part of the session's resume point, so that speakers keep their numbers
wherever the session goes on. What was told is never changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from msgspec.structs import replace

from auricle.alignment.words import pieces
from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import AuricleError
from auricle.load.asked_meter import AskedMeter
from auricle.messages import (
    DiarizeReply,
    DiarizeRequest,
    Final,
    HandedOver,
    OpenSession,
    Partial,
    SessionEvent,
    Speakers,
    Words,
    WordSource,
)
from auricle.processor.diarizer import Diarizer
from auricle.processor.late_events import Last, LateEvents
from auricle.processor.open_segment import OpenSegment
from auricle.processor.spoken_parts import Said, grid_times, spoken_parts

log = logging.getLogger(__name__)
SPEAKERS = "speakers"  # what is asked of the pools beside the path
# Why a segment has no speakers; otherwise it is the code of the error that was last.
BUSY, NO_AUDIO, NOBODY, MOVED, FAILED, STARTING = (
    *("overloaded", "no_audio", "nobody_heard", "handed_over", "session_failed", "starting"),
)


@dataclass(frozen=True)
class SpeakerRules:
    """Speakers are missing `deadline_seconds` after their final; `at_a_time` segments may wait.

    A session has `most` speakers.
    """

    deadline_seconds: float
    at_a_time: int
    most: int


@dataclass(frozen=True)
class _Ended:
    """A segment of so many samples, and its audio as bytes, empty if it came as features."""

    segment: OpenSegment
    samples: int
    pcm: bytes


class SessionSpeakers:
    """Puts the speakers of one session between its other events. Used on the event loop."""

    def __init__(
        self,
        opened: OpenSession,
        rules: SpeakerRules,
        diarizer: Diarizer,
        prompt: PromptFormat,
        language: str | None,
        asked: AskedMeter,
    ) -> None:
        """`language` is the one forced by the prompt; `asked` counts what is asked of the pool."""
        self._asked = asked
        self._opened = opened
        self._rules = rules
        self._diarizer = diarizer
        self._prompt = prompt
        self._language = language
        self._state = opened.resume.speakers
        self._turn = asyncio.Lock()  # whoever waits gets it in order
        self._ended: dict[int, _Ended] = {}  # until their final
        self._words: dict[int, asyncio.Future[Words]] = {}
        self._late = LateEvents[int]()

    def ended(self, segment: OpenSegment, samples: int) -> None:
        """A segment has ended after `samples`; its final follows."""
        pcm = segment.audio.pcm(0, samples).astype("<i2", copy=False).tobytes()
        self._ended[segment.number] = _Ended(segment, samples, pcm)

    def among(
        self, events: AsyncGenerator[SessionEvent, None]
    ) -> AsyncGenerator[SessionEvent, None]:
        """Yield the session's events and its speakers, which never hold up another event.

        Only Done waits, for what is still under way; each segment has a deadline of its own. If
        the session has words, `events` must have them.
        """
        return self._late.among(events, self._seen, self._lost)

    def _seen(self, event: SessionEvent) -> SessionEvent:
        if isinstance(event, Final):
            self._begin(event)
        elif isinstance(event, Words):
            words = self._words.get(event.segment)
            if words is not None and not words.done():
                words.set_result(event)
        if isinstance(event, Partial | Final | HandedOver):
            return replace(event, resume=replace(event.resume, speakers=self._state))
        return event

    def _lost(self, segment: int, last: Last) -> list[SessionEvent]:
        return [self._absent(segment, MOVED if isinstance(last, HandedOver) else FAILED)]

    def _absent(self, segment: int, missing: str) -> Speakers:
        return Speakers(segment, missing=missing, state=self._state)

    def _begin(self, final: Final) -> None:
        """Ask for the speakers of a final, or say at once why there are none."""
        ended = self._ended.pop(final.segment, None)
        if not final.text:
            return
        if ended is None or not ended.pcm:  # of another processor, or features
            self._late.tell(self._absent(final.segment, NO_AUDIO))
        elif len(self._late) >= self._rules.at_a_time:
            self._late.tell(self._absent(final.segment, BUSY))
        else:
            if self._opened.words:
                self._words[final.segment] = asyncio.get_running_loop().create_future()
            self._asked.speech(SPEAKERS, ended.samples / SAMPLE_RATE)
            self._late.start(final.segment, partial(self._diarize, final, ended), "speakers")

    async def _diarize(self, final: Final, ended: _Ended) -> Speakers:
        try:
            async with asyncio.timeout(self._rules.deadline_seconds):
                async with self._turn:
                    if await self._diarizer.starting():
                        return self._absent(final.segment, STARTING)
                    reply = await self._reply(ended.pcm)
                    self._state = reply.state
            if not reply.turns:
                return self._absent(final.segment, NOBODY)
            return await self._told(final, ended, reply)
        except AuricleError as error:
            log.warning("segment %d has no speakers: %s", final.segment, error)
            return self._absent(final.segment, error.code)
        except TimeoutError:
            return self._absent(final.segment, "deadline")
        except Exception:  # the session goes on; it must not wait for what never comes
            log.exception("segment %d has no speakers", final.segment)
            return self._absent(final.segment, AuricleError.code)
        finally:
            self._words.pop(final.segment, None)

    async def _reply(self, pcm: bytes) -> DiarizeReply:
        request = DiarizeRequest(
            session=self._opened.session,
            tenant=self._opened.tenant,
            pcm=pcm,
            state=self._state,
            most_speakers=self._rules.most,
            background=self._opened.background,
            trace=self._opened.trace,
        )
        return await self._diarizer.speakers(request, self._rules.deadline_seconds)

    async def _told(self, final: Final, ended: _Ended, reply: DiarizeReply) -> Speakers:
        """Return the event of a segment that has speakers, once its words are known."""
        start, waiting = ended.segment.start, self._words.get(final.segment)
        words = () if waiting is None else (await waiting).words
        said = [(w.text, (w.start_ms + w.end_ms) * SAMPLE_RATE / 2000) for w in words]
        if not said:
            said = self._by_grid(final, ended)
        aligned = bool(words) and waiting is not None and waiting.result().source == "aligned"
        parts = spoken_parts(reply.turns, start, said, final.text)
        source: WordSource = "aligned" if aligned else "commit_grid"
        return Speakers(final.segment, parts, source, state=self._state)

    def _by_grid(self, final: Final, ended: _Ended) -> list[Said]:
        split = [piece.text for piece in pieces(final.text)]
        if not split:
            return []
        stability = ended.segment.stability
        tokens = self._prompt.pieces(stability.tokens, self._language)
        sizes = accumulate(len(data) for _, data in tokens)
        heard = [
            (size, stability.established[at]) for (at, _), size in zip(tokens, sizes, strict=True)
        ]
        return grid_times(split, heard, ended.segment.start, ended.samples)
