"""What a client of `/v2/listen` is told of turns, and when. No I/O, no clock.

Endpointing finds silences before the text of the speech before them is known. What they mean for
the turn is kept as a mark until that text was told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.segmentation import SHORTEST_SEGMENT
from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.deepgram.flux_messages import FluxReplies, Turn
from auricle.frontend.deepgram.messages import Reply
from auricle.frontend.deepgram.turn_ends import TurnEnds
from auricle.frontend.listening.endpointing import GateEvent, Piece, SpeechStarted, SpeechStopped
from auricle.messages import Final, Partial

# How much later than its first sample speech is found.
_ONSET = 4 * VAD_FRAME


@dataclass(frozen=True)
class _Mark:
    """What follows the text of all speech before it.

    `speech`: nothing; the speech of session samples [begin, end) has its text. `eager`: the turn
    may be over. `end`: it is, because of `trigger`. `confidence` is that it is over.
    """

    kind: Literal["speech", "eager", "end"]
    begin: int = 0
    end: int = 0
    confidence: float = 0.0
    trigger: str = ""


class Turns:
    """Turns the speech and text of one session into messages. Calls must not overlap.

    A turn starts with its first words and has those of all segments up to its end.
    """

    def __init__(self, ends: TurnEnds, replies: FluxReplies) -> None:
        self.ends = ends  # may change at any time
        self._replies = replies
        self._marks: deque[_Mark] = deque()
        self._index = 0
        self._texts: list[str] = []  # of the turn, final
        self._begin: float | None = None  # seconds, of the turn's text
        self._end = 0.0
        self._started = False  # the client was told of the turn
        self._eager = False  # and that it may be over
        self._speech: int | None = None  # where speech began that has not ended
        self._text_until = 0  # up to there all speech has its text
        self._quiet_since: int | None = None  # where speech ended, until the turn has
        self._eager_found = False  # in that silence

    def heard(self, events: Sequence[GateEvent], until: int) -> list[Reply]:
        """Endpointing has found `events`; it has listened up to sample `until`."""
        told: list[Reply] = []
        for event in events:
            if isinstance(event, SpeechStarted):
                self._silent_until(event.at)
                told += self._due() + self._resumed()
            elif isinstance(event, SpeechStopped):
                self._quiet_since, self._eager_found = event.at, False
                if (silence := _samples(self.ends.speech_ends_ms)) <= until - event.at:
                    self._silent_until(event.at + silence)
            elif isinstance(event, Piece):
                self._passed(event)
        self._silent_until(until - _ONSET)
        return told + self._due()

    def finalized(self, _at: int) -> list[Reply]:
        """The client says that the turn is over."""
        self._over("manual", 0.0)
        return self._due()

    def partial(self, event: Partial) -> list[Reply]:
        """The open segment has text that may change."""
        start = event.resume.segment_start / SAMPLE_RATE
        text = self._text((event.committed + event.partial).strip())
        return self._begun(text, start, event.audio_ms / 1000) or self._updated(text)

    def final(self, event: Final) -> list[Reply]:
        """A segment has its final text."""
        self._text_until = event.resume.segment_start
        if event.text:
            self._texts.append(event.text)
        text = self._text()
        told = self._begun(text, event.start_ms / 1000, event.end_ms / 1000) + self._due()
        return told or self._updated(text)  # a change says all that an update says

    def closed(self) -> list[Reply]:
        """There is no more audio, and all text was told: whatever is open ends."""
        self._over("manual", 0.0)
        return self._due()

    # ── silences ────────────────────────────────────────────────────────────

    def _passed(self, piece: Piece) -> None:
        if self._speech is None:
            self._speech = piece.start
        if piece.boundary == "endpoint":
            self._marks.append(_Mark("speech", self._speech, piece.end))
            self._speech = None

    def _silent_until(self, at: int) -> None:
        """Nobody speaks between the last end of speech and `at`."""
        if self._quiet_since is None:
            return
        silence_ms = (at - self._quiet_since) * 1000 / SAMPLE_RATE
        eager_ms = self.ends.eager_ms
        if eager_ms is not None and silence_ms >= eager_ms and not self._eager_found:
            self._eager_found = True
            self._marks.append(_Mark("eager", confidence=self.ends.confidence(eager_ms)))
        if silence_ms >= self.ends.end_ms:
            self._over(self.ends.trigger, self.ends.confidence(self.ends.end_ms))

    def _over(self, trigger: str, confidence: float) -> None:
        self._marks.append(_Mark("end", confidence=confidence, trigger=trigger))
        self._quiet_since = None

    def _resumed(self) -> list[Reply]:
        """Speech begins: a turn that may have been over goes on."""
        going_on, self._quiet_since = self._quiet_since is not None, None
        if not going_on:
            return []
        if self._marks and self._marks[-1].kind == "eager":  # nobody was told yet
            self._marks.pop()
            return []
        if not self._eager:
            return []
        self._eager = False
        return [self._replies.turn_info("TurnResumed", self._turn(self._text()))]

    # ── text ────────────────────────────────────────────────────────────────

    def _begun(self, text: str, start: float, end: float) -> list[Reply]:
        """The turn has this text now; tell the client if it is its first."""
        if not text:
            return []
        self._begin = start if self._begin is None else self._begin
        self._end = end
        if self._started:
            return []
        self._started = True
        return [self._replies.turn_info("StartOfTurn", self._turn(text))]

    def _updated(self, text: str) -> list[Reply]:
        return [self._replies.turn_info("Update", self._turn(text))] if text else []

    def _due(self) -> list[Reply]:
        """Tell what the marks mean whose text was told."""
        told: list[Reply] = []
        while self._marks:
            mark = self._marks[0]
            # No final comes of less: a processor makes no segment of it.
            if mark.end - max(mark.begin, self._text_until) >= SHORTEST_SEGMENT:
                break
            self._marks.popleft()
            if mark.kind == "eager" and self._started and (text := self._text()):
                self._eager = True
                turn = self._turn(text)
                told.append(self._replies.turn_info("EagerEndOfTurn", turn, mark.confidence))
            elif mark.kind == "end":
                told += self._ended(mark)
        return told

    def _ended(self, mark: _Mark) -> list[Reply]:
        if not self._started:
            return []
        turn = self._turn(self._text())
        self._index += 1
        self._texts, self._begin = [], None
        self._started = self._eager = False
        return [self._replies.turn_info("EndOfTurn", turn, mark.confidence, mark.trigger)]

    def _text(self, partial: str = "") -> str:
        return " ".join([*self._texts, *([partial] if partial else [])])

    def _turn(self, text: str) -> Turn:
        return Turn(self._index, text, self._begin or 0.0, self._end)


def _samples(milliseconds: int) -> int:
    return milliseconds * SAMPLE_RATE // 1000
