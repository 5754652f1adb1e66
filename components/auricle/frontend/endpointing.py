"""Which audio is speech, and where it ends. Pure: samples and probabilities in, pieces out.

Only speech goes on to the processor, with a little before and after it: silence
costs no encode and no decode. While it is open whether a silence is a pause or
the end, audio is held back; it follows if speech goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from auricle.audio.features import FeaturePacket
from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME
from auricle.messages import Boundary
from auricle.settings import FrontendSettings

# Speech is over below (threshold − this), as in silero-vad's own iterator.
_HYSTERESIS = 0.15
# Probability must stay up so long, or a click would open a segment.
_MIN_SPEECH = 3 * VAD_FRAME
# Probabilities stay up for about two frames after speech has ended (median 65 ms over
# synthetic speech with known ends).
_LAG = 2 * VAD_FRAME
# Audio kept after speech: soft endings; and what counts as a pause inside a segment.
_HANGOVER = SAMPLE_RATE // 5


@dataclass(frozen=True)
class EndpointingOptions:
    """Of one session. `threshold` is a speech probability; times in milliseconds."""

    threshold: float
    min_silence_ms: int
    pre_roll_ms: int

    @classmethod
    def over(
        cls,
        settings: FrontendSettings,
        *,
        threshold: float | None,
        min_silence_ms: int | None,
        pre_roll_ms: int | None,
    ) -> EndpointingOptions:
        """A session's own values where it has any, else the server's."""
        return cls(
            settings.speech_threshold if threshold is None else threshold,
            settings.min_silence_ms if min_silence_ms is None else min_silence_ms,
            settings.pre_roll_ms if pre_roll_ms is None else pre_roll_ms,
        )


@dataclass(frozen=True)
class Piece:
    """16 kHz audio from session sample `start` on, and what its end is."""

    start: int
    pcm: Int16
    boundary: Boundary = "none"

    @property
    def end(self) -> int:
        """Session sample after the last one."""
        return self.start + len(self.pcm)


@dataclass(frozen=True)
class FeaturePiece:
    """Features from session sample `start` on, instead of samples; never cut or joined."""

    start: int
    packet: FeaturePacket

    @property
    def boundary(self) -> Boundary:
        """The client's segments end where it says."""
        return "endpoint" if self.packet.last else "none"

    @property
    def end(self) -> int:
        """Session sample after the last one."""
        return self.packet.end


@dataclass(frozen=True)
class SpeechStarted:
    """`at`: session sample, without the pre-roll."""

    at: int


@dataclass(frozen=True)
class SpeechStopped:
    """`at`: session sample where speech ended; known once the silence was long enough."""

    at: int


GateEvent = Piece | FeaturePiece | SpeechStarted | SpeechStopped


class SpeechGate:
    """Lets speech of one session through. Depends on the audio alone, not on its packets."""

    def __init__(self, options: EndpointingOptions) -> None:
        self._threshold = options.threshold
        self._low = max(options.threshold - _HYSTERESIS, 0.01)
        self._pre_roll = options.pre_roll_ms * SAMPLE_RATE // 1000
        self._min_silence = options.min_silence_ms * SAMPLE_RATE // 1000
        self._hangover = min(_HANGOVER, self._min_silence)
        self._audio = np.zeros(0, np.int16)
        self._audio_start = 0  # session sample of the first one kept
        self._decided = 0  # session sample up to which probabilities are known
        self._released = 0
        self._onset: int | None = None  # of speech not long enough yet
        self._quiet_since: int | None = None
        self._speaking = False

    def push(self, pcm: Int16, probabilities: Iterable[float]) -> list[GateEvent]:
        """Audio as it came, and the probabilities of the frames complete by now."""
        self._audio = np.concatenate([self._audio, pcm])
        events: list[GateEvent] = []
        for probability in probabilities:
            events += self._frame(probability)
        self._forget()
        return _merged(events)

    def finish(self, probabilities: Iterable[float]) -> list[GateEvent]:
        """The audio is over; `probabilities` are those of the last frame, filled with zeros."""
        events = self.push(np.zeros(0, np.int16), probabilities)
        total = self._audio_start + len(self._audio)
        if not self._speaking and self._onset is not None:  # a last short word
            events += self._start(self._onset)
        if self._speaking:
            end = total if self._quiet_since is None else self._quiet_since
            limit = total if self._quiet_since is None else min(total, end + self._hangover)
            events += [*self._release(limit, "endpoint"), SpeechStopped(min(end, total))]
            self._speaking = False
        return _merged(events)

    @property
    def resting_at(self) -> int | None:
        """Where another gate can go on as if it had heard everything before: session sample.

        None within speech.
        """
        return None if self._speaking else self._audio_start

    def _frame(self, probability: float) -> list[GateEvent]:
        start = self._decided
        self._decided += VAD_FRAME
        if self._speaking:
            return self._frame_of_speech(probability, start)
        if probability >= self._threshold:
            self._onset = start if self._onset is None else self._onset
        elif probability < self._low:
            self._onset = None
        if self._onset is None or self._decided - self._onset < _MIN_SPEECH:
            return []
        return [*self._start(self._onset), *self._release(self._decided)]

    def _start(self, onset: int) -> list[GateEvent]:
        self._speaking, self._onset, self._quiet_since = True, None, None
        self._released = max(self._released, onset - self._pre_roll, self._audio_start)
        return [SpeechStarted(onset)]

    def _frame_of_speech(self, probability: float, start: int) -> list[GateEvent]:
        if probability >= self._threshold:
            self._quiet_since = None
        elif probability < self._low and self._quiet_since is None:
            self._quiet_since = start - _LAG
        if self._quiet_since is None:
            return self._release(self._decided)
        limit = self._quiet_since + self._hangover
        if self._decided - self._quiet_since >= self._min_silence:
            stopped = SpeechStopped(self._quiet_since)
            self._speaking, self._quiet_since = False, None
            return [*self._release(limit, "endpoint"), stopped]
        if self._decided < limit:
            return self._release(self._decided)
        return self._release(limit, "pause") if self._released < limit else []

    def _release(self, until: int, boundary: Boundary = "none") -> list[GateEvent]:
        until = min(until, self._audio_start + len(self._audio))
        first, last = (s - self._audio_start for s in (self._released, until))
        piece = Piece(self._released, self._audio[first:last], boundary)
        self._released = max(self._released, until)
        return [piece] if len(piece.pcm) or boundary != "none" else []

    def _forget(self) -> None:
        """Keep what may still be released: the pre-roll of speech that may just begin."""
        begin = self._decided if self._onset is None else self._onset
        keep = self._released if self._speaking else max(self._released, begin - self._pre_roll)
        if keep > self._audio_start:
            self._audio = self._audio[keep - self._audio_start :].copy()
            self._audio_start = keep


class OpenGate:
    """Lets everything through: a session without voice activity."""

    def __init__(self) -> None:
        self._next = 0

    def push(self, pcm: Int16) -> list[GateEvent]:
        """The audio as it came."""
        piece = Piece(self._next, pcm)
        self._next = piece.end
        return [piece]


def _merged(events: list[GateEvent]) -> list[GateEvent]:
    """Adjacent pieces as one, up to a boundary."""
    merged: list[GateEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, Piece)
            and isinstance(last, Piece)
            and last.boundary == "none"
            and last.end == event.start
        ):
            pcm = np.concatenate([last.pcm, event.pcm])
            merged[-1] = Piece(last.start, pcm, event.boundary)
        else:
            merged.append(event)
    return merged
