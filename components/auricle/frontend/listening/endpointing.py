"""Endpointing: decides which audio is speech and where speech ends. No I/O.

Only speech is sent to the processor, with some audio before and after it, so that silence
is neither encoded nor decoded. During a silence that may turn out to be a pause or the end
of speech, audio is held back; it is released if speech resumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.listening.point import GateMemory
from auricle.messages import Boundary
from auricle.settings import FrontendSettings

# A frame is silence if its probability is below (threshold − this), as in silero-vad's iterator.
_HYSTERESIS = 0.15
# Samples for which the probability must stay high. Without this a click would open a segment.
_MIN_SPEECH = 3 * VAD_FRAME
# Probabilities stay high for about two frames after speech has ended (median 65 ms over
# synthetic speech with known ends).
_LAG = 2 * VAD_FRAME
# Samples of audio kept after speech, for soft endings. A silence of this length counts as a
# pause within a segment.
_HANGOVER = SAMPLE_RATE // 5


@dataclass(frozen=True)
class EndpointingOptions:
    """Endpointing of one session. `threshold` is a speech probability from 0 to 1."""

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
        """Return the session's own values, and the server's where a value is None."""
        return cls(
            settings.speech_threshold if threshold is None else threshold,
            settings.min_silence_ms if min_silence_ms is None else min_silence_ms,
            settings.pre_roll_ms if pre_roll_ms is None else pre_roll_ms,
        )


@dataclass(frozen=True)
class Piece:
    """16 kHz mono audio, shape (n,), from session sample `start`; `boundary` follows it."""

    start: int
    pcm: Int16
    boundary: Boundary = "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.start + len(self.pcm)


@dataclass(frozen=True)
class FeaturePiece:
    """Features from session sample `start` instead of audio. They are never cut or joined."""

    start: int
    packet: FeaturePacket

    @property
    def boundary(self) -> Boundary:
        """An endpoint after the segment's last packet, because the client does endpointing."""
        return "endpoint" if self.packet.last else "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.packet.end


@dataclass(frozen=True)
class SpeechStarted:
    """Speech began at session sample `at`, which does not include the pre-roll."""

    at: int


@dataclass(frozen=True)
class SpeechStopped:
    """Speech ended at session sample `at`. Emitted once the silence was long enough."""

    at: int


GateEvent = Piece | FeaturePiece | SpeechStarted | SpeechStopped


class SpeechGate:
    """Passes on the speech of one session.

    The result depends on the audio alone, not on how it was cut into packets, nor on whether
    another gate goes on from `memory` with the audio from `kept_from` on. Calls must not overlap.
    """

    def __init__(
        self, options: EndpointingOptions, start: int = 0, memory: GateMemory | None = None
    ) -> None:
        """The audio begins at session sample `start`; `memory` is that of the gate before."""
        self._threshold = options.threshold
        self._low = max(options.threshold - _HYSTERESIS, 0.01)
        self._pre_roll = options.pre_roll_ms * SAMPLE_RATE // 1000
        self._min_silence = options.min_silence_ms * SAMPLE_RATE // 1000
        self._hangover = min(_HANGOVER, self._min_silence)
        self._audio = np.zeros(0, np.int16)
        memory = memory or GateMemory(start, start, None, None, False)
        self._audio_start = start  # session sample at which the kept audio begins
        self._decided = memory.decided  # session sample up to which probabilities are known
        self._released = memory.released  # session sample up to which audio was passed on
        self._onset = memory.onset  # where speech began that is not long enough yet
        self._quiet_since = memory.quiet_since
        self._speaking = memory.speaking

    def push(self, pcm: Int16, probabilities: Iterable[float]) -> list[GateEvent]:
        """Take audio, and the speech probabilities of the frames that it completes.

        `pcm` has shape (n,) and may have any length, including 0.
        """
        self._audio = np.concatenate([self._audio, pcm])
        events: list[GateEvent] = []
        for probability in probabilities:
            events += self._frame(probability)
        self._forget()
        return _merged(events)

    def finish(self, probabilities: Iterable[float]) -> list[GateEvent]:
        """End the audio. `probabilities` belong to the last frame, which was padded with zeros."""
        events = self.push(np.zeros(0, np.int16), probabilities)
        total = self._audio_start + len(self._audio)
        if not self._speaking and self._onset is not None:  # the audio ends with a short word
            events += self._start(self._onset)
        if self._speaking:
            end = total if self._quiet_since is None else self._quiet_since
            limit = total if self._quiet_since is None else min(total, end + self._hangover)
            events += [*self._release(limit, "endpoint"), SpeechStopped(min(end, total))]
            self._speaking = False
        return _merged(events)

    @property
    def memory(self) -> GateMemory:
        """What another gate needs to go on from here. Not after `finish`."""
        return GateMemory(
            self._decided, self._released, self._onset, self._quiet_since, self._speaking
        )

    @property
    def kept_from(self) -> int:
        """The session sample from which another gate needs the audio to go on."""
        return self._audio_start

    def turning_point(self, speech: int | None) -> int | None:
        """Return the next session sample at which something can be decided, if that is known.

        There, `speech` more samples are passed on, or a silence has become long enough.
        """
        points = []
        if self._speaking and speech is not None:
            points.append(self._released + speech)
        if self._speaking and self._quiet_since is not None:
            points.append(self._quiet_since + self._min_silence)
        return min((at for at in points if at > self._decided), default=None)

    @property
    def decided(self) -> int:
        """The session sample up to which is known what is speech."""
        return self._decided

    @property
    def passed(self) -> int:
        """The session sample up to which audio was passed on."""
        return self._released

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new gate would give the same results; None in speech."""
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
        """Drop audio that cannot be released any more; keep the pre-roll of a possible onset."""
        begin = self._decided if self._onset is None else self._onset
        keep = self._released if self._speaking else max(self._released, begin - self._pre_roll)
        if keep > self._audio_start:
            self._audio = self._audio[keep - self._audio_start :].copy()
            self._audio_start = keep


class OpenGate:
    """Passes on all audio, for a session without voice activity detection."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def push(self, pcm: Int16) -> list[GateEvent]:
        """Return the audio unchanged, as one piece."""
        piece = Piece(self._next, pcm)
        self._next = piece.end
        return [piece]


def _merged(events: list[GateEvent]) -> list[GateEvent]:
    """Join adjacent pieces that have no boundary between them; each sample is copied once."""
    merged: list[GateEvent] = []
    run: list[Piece] = []
    for event in events:
        if run and not (isinstance(event, Piece) and _goes_on(run[-1], event)):
            merged.append(_joined(run))
            run = []
        if isinstance(event, Piece):
            run.append(event)
        else:
            merged.append(event)
    return [*merged, _joined(run)] if run else merged


def _goes_on(piece: Piece, following: Piece) -> bool:
    return piece.boundary == "none" and piece.end == following.start


def _joined(run: list[Piece]) -> Piece:
    if len(run) == 1:
        return run[0]
    return Piece(run[0].start, np.concatenate([piece.pcm for piece in run]), run[-1].boundary)
