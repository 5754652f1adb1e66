"""Turns of protocols that have them: when one starts, may be over, continues and ends.

Endpointing finds a silence before the speech before it has its text. The effect of the silence on
the turn is kept as a mark until the client has that text. No I/O, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.segmentation import SHORTEST_SEGMENT
from auricle.audio.voice_activity import VAD_FRAME
from auricle.config.frontend import MIN_SILENCE_MS
from auricle.frontend.audio.chunks import (
    AudioChunk,
    AudioEvent,
    SpeechEnd,
    SpeechOnset,
    TurnPause,
    TurnResumption,
)
from auricle.frontend.audio.turn_detection import LOOK_MS, Silence, TurnWait
from auricle.frontend.link.words import speakers_of
from auricle.frontend.session.adapter import Reply
from auricle.protocol.sessions import SegmentFinal, SegmentPartial
from auricle.protocol.stream import Word

# The silence after which a turn ends depends on its length alone, or on a turn model.
#
# Without a turn model the confidence that a turn is over is a function of the silence's length. It
# reaches a protocol's default threshold after the silence that ends speech in the other protocols
# (`Frontend.min_silence_ms`), and approaches 1.


@dataclass(frozen=True)
class Pause:
    """The silences that count in one pause; confidences are from 0 to 1.

    After `eager_ms` the turn may be over (None if the client does not want to know), after `end_ms`
    it is over; `timed_out` if that is the longest silence allowed. After `speech_ms` speech gets
    its final text, before the turn ends.
    """

    eager_ms: int | None
    end_ms: int
    speech_ms: int
    timed_out: bool
    eager_confidence: float
    end_confidence: float


@dataclass(frozen=True)
class EndpointingPolicy:
    """A turn ends at the confidence `threshold`, not before `least_ms` of silence, and in any case
    after `longest_ms`.

    The confidence is `usual`, the protocol's default, after `min_silence_ms`. At the confidence
    `eager` the client is notified. `judged`: a turn model gives the confidence.
    """

    threshold: float
    longest_ms: int
    usual: float
    min_silence_ms: int
    eager: float | None = None
    least_ms: int = 0
    judged: bool = False

    @property
    def turns(self) -> TurnWait | None:
        """The turn model's wait; None without one, or if turns end before it could answer."""
        if not self.judged or self.longest_ms <= LOOK_MS:
            return None
        return TurnWait(
            self.threshold, self.longest_ms, self.least_ms, self.eager, self.min_silence_ms
        )

    @property
    def silence(self) -> Silence:
        """The silence after which speech gets its final text."""
        return self.turns or self.speech_ms

    @property
    def eager_ms(self) -> int | None:
        """The silence after which a turn may be over."""
        return None if self.eager is None else self._silence_ms(self.eager)

    @property
    def end_ms(self) -> int:
        """The silence after which a turn is over."""
        sure_ms = self.longest_ms
        if self.threshold < 1.0:
            sure_ms = min(sure_ms, self._silence_ms(self.threshold))
        return max(MIN_SILENCE_MS, self.least_ms, sure_ms)

    @property
    def speech_ms(self) -> int:
        """The silence after which speech gets its final text."""
        eager_ms = self.end_ms if self.eager_ms is None else self.eager_ms
        return max(MIN_SILENCE_MS, min(self.min_silence_ms, self.end_ms, eager_ms))

    def confidence(self, silence_ms: float) -> float:
        return round(silence_ms / (silence_ms + self._half_ms), 3)

    def pause(self, probability: float) -> Pause:
        """Return the silences of a pause; `probability` is the turn model's, if there is one."""
        end_ms, eager_ms = self.end_ms, self.eager_ms
        if (wait := self.turns) is None:
            sure = 0.0 if eager_ms is None else self.confidence(eager_ms)
            timed_out = end_ms == self.longest_ms
            return Pause(eager_ms, end_ms, self.speech_ms, timed_out, sure, self.confidence(end_ms))
        sure, end_ms = round(probability, 3), wait.after(probability)
        return Pause(
            0 if wait.may_be_over(probability) else None,
            end_ms,
            wait.speech_after(probability),
            end_ms == wait.longest_ms,
            sure,
            sure,
        )

    def _silence_ms(self, wanted: float) -> int:
        """Return the silence after which the confidence is `wanted`, below 1."""
        return max(MIN_SILENCE_MS, round(self._half_ms * wanted / (1 - wanted)))

    @property
    def _half_ms(self) -> float:
        return self.min_silence_ms * (1 - self.usual) / self.usual


# `paused`: the turn may be over.
TurnEvent = Literal["started", "updated", "paused", "resumed", "ended"]
# Why a turn ended: enough confidence, the longest silence allowed, or the client's request.
Cause = Literal["sure", "silence", "client"]
# Speech is found this many samples after its first one.
_ONSET = 4 * VAD_FRAME


@dataclass(frozen=True)
class TurnSegment:
    """The text of one segment, spoken from `begin` to `end` seconds.

    Unless it is final, only its first `committed_chars` characters will not change. `words` include
    the white space around them and are empty if unknown; `aligned`: their times are the aligner's.
    `speakers` has the speaker of each word, counted from 1 (None: not known); it is empty if not
    requested. `speakers_missing` is the reason why none is known.
    """

    text: str
    begin: float
    end: float
    language: str
    committed_chars: int = 0
    is_final: bool = True
    words: tuple[Word, ...] = ()
    aligned: bool = False
    speakers: tuple[int | None, ...] = ()
    speakers_missing: str = ""


@dataclass(frozen=True)
class Turn:
    """A turn so far: its number from 0, its segments, and its time in seconds."""

    index: int
    spoken: tuple[TurnSegment, ...]
    begin: float
    end: float

    @property
    def text(self) -> str:
        return " ".join(one.text for one in self.spoken)


class TurnReplies(Protocol):
    """Makes the messages on a session's turns, in the order in which they are sent."""

    def turn(
        self, event: TurnEvent, turn: Turn, confidence: float = 0.0, cause: Cause | None = None
    ) -> list[Reply]:
        """Return the messages on a turn; `confidence` that it is over."""
        ...


@dataclass(frozen=True)
class _Mark:
    """An effect that takes place once all speech before it has its text.

    `speech`: none; the mark stands for the speech of session samples [begin, end). `paused`: the
    turn may be over. `ended`: it is, because of `cause`.
    """

    kind: Literal["speech", "paused", "ended"]
    begin: int = 0
    end: int = 0
    confidence: float = 0.0
    cause: Cause = "client"


class Turns:
    """Converts the speech and text of one session into messages. Calls must not overlap.

    A turn starts with its first words and consists of all segments up to its end.
    """

    def __init__(self, policy: EndpointingPolicy, replies: TurnReplies) -> None:
        self.policy = policy  # may change at any time
        self._replies = replies
        self._marks: deque[_Mark] = deque()
        self._index = 0
        self._finals: list[TurnSegment] = []  # of the turn
        self._begin: float | None = None  # seconds, of the turn's text
        self._end = 0.0
        self._started = False  # the client has received the start of the turn
        self._eager = False  # the client has received that the turn may be over
        self._speech: int | None = None  # where speech began that has not ended
        self._text_until = 0  # all speech up to there has its text
        self._quiet_since: int | None = None  # where speech ended, until the turn has
        self._eager_found = False  # in that silence
        self._probability = 0.0  # the turn model's, for that silence

    def on_endpointing(self, events: Sequence[AudioEvent], until: int) -> list[Reply]:
        """Endpointing has found `events` up to `until`, samples and silence without audio."""
        replies: list[Reply] = []
        for event in events:
            if isinstance(event, TurnPause | SpeechEnd) and event.probability is not None:
                self._probability = event.probability
            if isinstance(event, SpeechOnset | TurnResumption):
                self._silent_until(event.at)
                replies += self._due() + self._resumed()
                self._probability = 0.0
            elif isinstance(event, SpeechEnd):
                self._quiet_since, self._eager_found = event.at, False
                silence = _samples(self.policy.pause(self._probability).speech_ms)
                if silence <= until - event.at:
                    self._silent_until(event.at + silence)
            elif isinstance(event, AudioChunk):
                self._passed(event)
        self._silent_until(until - _ONSET)
        return replies + self._due()

    @property
    def silence_until(self) -> int | None:
        """The sample up to which silence must last for the next message; None if there is none."""
        if self._quiet_since is None:
            return None
        pause = self.policy.pause(self._probability)
        silence_ms = pause.end_ms
        if pause.eager_ms is not None and not self._eager_found:
            silence_ms = pause.eager_ms
        return self._quiet_since + _samples(silence_ms) + _ONSET

    def on_finalized(self, _at: int) -> list[Reply]:
        """The client ends the turn."""
        self._over("client", 0.0)
        return self._due()

    def on_partial(self, event: SegmentPartial) -> list[Reply]:
        """The open segment has text that may change."""
        start = event.resume.segment_start / SAMPLE_RATE
        spoken = _open(event, start)
        segments = [*self._finals, *([spoken] if spoken.text else [])]
        return self._begun(segments, start, spoken.end) or self._updated(segments)

    def on_final(self, event: SegmentFinal) -> list[Reply]:
        """A segment has its final text."""
        self._text_until = event.resume.segment_start
        start, end = event.start_ms / 1000, event.end_ms / 1000
        if event.text:
            self._finals.append(_final(event))
        replies = self._begun(self._finals, start, end) + self._due()
        return replies or self._updated(self._finals)  # either contains the whole text

    def closed(self) -> list[Reply]:
        """End the open turn: the audio has ended, and all of it has its text."""
        self._over("client", 0.0)
        return self._due()

    # ── silences ────────────────────────────────────────────────────────────

    def _passed(self, piece: AudioChunk) -> None:
        if self._speech is None:
            self._speech = piece.start
        if piece.boundary == "endpoint":
            self._marks.append(_Mark("speech", self._speech, piece.end))
            self._speech = None

    def _silent_until(self, at: int) -> None:
        """The silence after the last end of speech lasts until `at`."""
        if self._quiet_since is None:
            return
        silence_ms = (at - self._quiet_since) * 1000 / SAMPLE_RATE
        pause = self.policy.pause(self._probability)
        eager_ms = pause.eager_ms
        if eager_ms is not None and silence_ms >= eager_ms and not self._eager_found:
            self._eager_found = True
            self._marks.append(_Mark("paused", confidence=pause.eager_confidence))
        if silence_ms >= pause.end_ms:
            self._over("silence" if pause.timed_out else "sure", pause.end_confidence)

    def _over(self, cause: Cause, confidence: float) -> None:
        self._marks.append(_Mark("ended", confidence=confidence, cause=cause))
        self._quiet_since = None

    def _resumed(self) -> list[Reply]:
        """Speech begins: a turn that may have been over continues."""
        continues, self._quiet_since = self._quiet_since is not None, None
        if not continues:
            return []
        if self._marks and self._marks[-1].kind == "paused":  # the client does not know yet
            self._marks.pop()
            return []
        if not self._eager:
            return []
        self._eager = False
        return self._replies.turn("resumed", self._turn(self._finals))

    # ── text ────────────────────────────────────────────────────────────────

    def _begun(self, segments: Sequence[TurnSegment], start: float, end: float) -> list[Reply]:
        """Note the turn's segments so far, and start it with the first."""
        if not segments:
            return []
        self._begin = start if self._begin is None else self._begin
        self._end = end
        if self._started:
            return []
        self._started = True
        return self._replies.turn("started", self._turn(segments))

    def _updated(self, segments: Sequence[TurnSegment]) -> list[Reply]:
        return self._replies.turn("updated", self._turn(segments)) if segments else []

    def _due(self) -> list[Reply]:
        """Apply the marks up to the first speech without text."""
        replies: list[Reply] = []
        while self._marks:
            mark = self._marks[0]
            # A processor makes no segment of less, so that no final follows.
            if mark.end - max(mark.begin, self._text_until) >= SHORTEST_SEGMENT:
                break
            self._marks.popleft()
            if mark.kind == "paused" and self._started and self._finals:
                self._eager = True
                turn = self._turn(self._finals)
                replies += self._replies.turn("paused", turn, mark.confidence)
            elif mark.kind == "ended":
                replies += self._ended(mark)
        return replies

    def _ended(self, mark: _Mark) -> list[Reply]:
        if not self._started:
            return []
        turn = self._turn(self._finals)
        self._index += 1
        self._finals, self._begin = [], None
        self._started = self._eager = False
        return self._replies.turn("ended", turn, mark.confidence, mark.cause)

    def _turn(self, segments: Sequence[TurnSegment]) -> Turn:
        return Turn(self._index, tuple(segments), self._begin or 0.0, self._end)


def _final(event: SegmentFinal) -> TurnSegment:
    found = event.speakers
    return TurnSegment(
        *(event.text, event.start_ms / 1000, event.end_ms / 1000, event.language),
        words=event.words,
        aligned=event.word_source == "aligned",
        speakers=() if found is None else speakers_of(event),
        speakers_missing="" if found is None else found.missing,
    )


def _open(event: SegmentPartial, start: float) -> TurnSegment:
    """Return the open segment, which began at `start` seconds."""
    text = (event.committed + event.partial).strip()
    committed_chars = min(len(text), len(event.committed.lstrip()))
    return TurnSegment(
        *(text, start, event.audio_ms / 1000, event.language, committed_chars),
        is_final=False,
        words=event.words,
    )


def _samples(milliseconds: int) -> int:
    return milliseconds * SAMPLE_RATE // 1000
