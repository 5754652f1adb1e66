"""Endpointing: decides which audio is speech and where speech ends. No I/O.

Only speech is sent to the processor, with some audio before and after it, so that silence
is neither encoded nor decoded. During a silence that may turn out to be a pause or the end
of speech, audio is held back; it is released if speech resumes.

The silence that ends speech is fixed, or depends on a turn model's result for the speech before it.
The endpointer does not call the model: it stops at the question and continues with the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, Unpack

import msgspec
import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.audio.turn_model import TURN_SAMPLES
from auricle.audio.voice_activity import VAD_FRAME
from auricle.config.frontend import PreRollMs, SilenceMs, SpeechThreshold
from auricle.config.settings import FrontendSettings
from auricle.frontend.audio.chunks import (
    AudioChunk,
    AudioEvent,
    SpeechEnd,
    SpeechOnset,
    TurnPause,
    TurnResumption,
    merged,
)
from auricle.frontend.audio.resume_state import EndpointerState
from auricle.frontend.audio.turn_detection import LOOK_MS, TurnWait
from auricle.protocol.sessions import Boundary

# A frame is silence if its probability is below (threshold − this), as in silero-vad's iterator.
_HYSTERESIS = 0.15
# Samples for which the probability must stay high. Without this a click or a breath would open a
# segment, and Whisper invents a word for it. Of 534 words and sentences of a professional speaker,
# alone between silences, the shortest ("a") has 256 ms.
_MIN_SPEECH = 5 * VAD_FRAME
# The same at the end of the audio, which may cut off a word.
_MIN_LAST = 3 * VAD_FRAME
# Probabilities stay high for about two frames after speech has ended (median 65 ms over
# synthetic speech with known ends).
_LAG = 2 * VAD_FRAME
# Samples of audio kept after speech, for soft endings. A silence of this length counts as a
# pause within a segment.
_HANGOVER = SAMPLE_RATE // 5


class OwnValues(TypedDict, total=False):
    """The values that a session may choose; see `EndpointingOptions.over`."""

    threshold: float | None
    min_silence_ms: int | None
    pre_roll_ms: int | None
    turns: TurnWait | None
    recorded: bool


@dataclass(frozen=True)
class EndpointingOptions:
    """Endpointing of one session. `threshold` is a speech probability from 0 to 1.

    With `turns`, speech ends where a turn does, and `min_silence_ms` has no effect.
    """

    threshold: float
    min_silence_ms: int
    pre_roll_ms: int
    turns: TurnWait | None = None

    @classmethod
    def over(cls, settings: FrontendSettings, **own: Unpack[OwnValues]) -> EndpointingOptions:
        """Return the session's own values, and the server's where a value is None.

        `recorded`: the client does not wait for text, so segments may be longer.
        """
        silence_ms = own.get("min_silence_ms")
        if silence_ms is None and own.get("recorded"):
            silence_ms = settings.recording_min_silence_ms
        threshold, pre_roll_ms = own.get("threshold"), own.get("pre_roll_ms")
        return cls(
            settings.speech_threshold if threshold is None else threshold,
            settings.min_silence_ms if silence_ms is None else silence_ms,
            settings.pre_roll_ms if pre_roll_ms is None else pre_roll_ms,
            own.get("turns"),
        )

    @classmethod
    def chosen(
        cls, settings: FrontendSettings, *, enabled: bool | None, **own: Unpack[OwnValues]
    ) -> EndpointingOptions | None:
        """As `over`; None to decode all audio, if it is not `enabled`, by default the server's."""
        wanted = settings.endpointing if enabled is None else enabled
        return cls.over(settings, **own) if wanted else None

    @property
    def shortest_ms(self) -> int:
        """The shortest silence after which anything is decided."""
        return self.min_silence_ms if self.turns is None else LOOK_MS


class Endpointer:
    """Finds the speech of one session.

    The result depends on the audio alone, not on how it was cut into packets, nor on whether
    another endpointer continues from `state` with the audio from `kept_from`. Calls must not
    overlap.
    """

    def __init__(
        self, options: EndpointingOptions, start: int = 0, state: EndpointerState | None = None
    ) -> None:
        """The audio begins at session sample `start`; `state` is the previous endpointer's."""
        self._threshold = options.threshold
        self._low = max(options.threshold - _HYSTERESIS, 0.01)
        self._pre_roll = options.pre_roll_ms * SAMPLE_RATE // 1000
        self._turns = options.turns
        # The silence at which something is decided, unless the turn model has been asked about it.
        self._shortest = options.shortest_ms * SAMPLE_RATE // 1000
        self._hangover = min(_HANGOVER, self._shortest)
        self._audio = np.zeros(0, np.int16)
        self._waiting: deque[float] = deque()  # probabilities of frames after a question
        self._asks = False
        state = state or EndpointerState(start, start, None, None)
        self._audio_start = start  # session sample at which the kept audio begins
        self._decided = state.decided  # session sample up to which probabilities are known
        self._released = state.released  # session sample up to which audio was passed on
        self._onset = state.onset  # where speech began that is not long enough yet
        self._quiet_since = state.quiet_since
        self._speaking = state.speaking
        self._turn_start = state.turn_start
        self._turn_end = state.turn_end  # where it ends without more speech
        self._wait = state.wait  # samples of this silence that end speech, once that is known
        self._asked_at = 0  # samples of the silence about which the turn model was asked
        # Samples of time without audio: since the last speech, and now, at the end of the audio.
        self._gap, self._stalled = state.gap, 0

    def push(self, pcm: Int16, probabilities: Iterable[float]) -> list[AudioEvent]:
        """Take audio, and the speech probabilities of the frames that it completes.

        `pcm` has shape (n,) and may have any length, including 0. If the endpointer `asks`
        afterwards, it continues with the `answer`.
        """
        if len(pcm):
            self._gap, self._stalled = self._gap + self._stalled, 0
        self._audio = np.concatenate([self._audio, pcm])
        self._waiting.extend(probabilities)
        return self._continue([])

    def stall(self, samples: int) -> list[AudioEvent]:
        """No audio came for the time of `samples`: that is silence at the end of the audio.

        Positions count audio only. The next frame begins where the audio ends. If the
        endpointer `asks` afterwards, it continues with the `answer`.
        """
        self._decided, self._stalled = self._end, max(samples, self._stalled)
        events: list[AudioEvent] = self._start(self._begin) if self._ends_in_word else []
        self._onset = None
        if self._speaking and self._quiet_since is None:
            self._quiet_since = self._end
            events += self._release(self._end)
        return self._continue(events)

    @property
    def stall_needed(self) -> int | None:
        """Samples of time without audio after which `stall` changes something; None if nothing."""
        if self._end < self._decided:  # a client repeats its audio
            return None
        if self._speaking:
            quiet_since = self._end if self._quiet_since is None else self._quiet_since
            return max(0, self._enough - (self._end - quiet_since + self._gap))
        if self._onset is not None:
            return 0
        return self._turn_end - self._begin - self._gap if self._in_turn else None

    @property
    def gap(self) -> int:
        """Samples of time without audio since the last speech."""
        return self._gap + self._stalled

    @property
    def closed_gap(self) -> int:
        """As `gap`, without the stall that lasts."""
        return self._gap

    @property
    def _end(self) -> int:
        return self._audio_start + len(self._audio)

    @property
    def asks(self) -> bool:
        """Whether the endpointer waits for the probability that the turn is over."""
        return self._asks

    @property
    def turn(self) -> Int16:
        """The end of the turn's audio so far, for the turn model: (n,), at most 8 s.

        The model expects a pause at its end, so silence without audio is there as zeros.
        """
        quiet_since = self._decided if self._quiet_since is None else self._quiet_since
        missing = max(0, self._asked_at - (self._decided - quiet_since))
        begin = max(self._turn_start, self._decided + missing - TURN_SAMPLES, self._audio_start)
        heard = self._audio[begin - self._audio_start : self._decided - self._audio_start]
        return np.concatenate([heard, np.zeros(missing, np.int16)]) if missing else heard

    def answer(self, probability: float) -> list[AudioEvent]:
        """Continue: the turn is over with this probability (0 to 1)."""
        if not self._asks or self._turns is None or self._quiet_since is None:
            raise RuntimeError("an answer without a question")
        self._asks = False
        self._wait = self._turns.speech_after(probability) * SAMPLE_RATE // 1000
        turn_ms = self._turns.after(probability)
        self._turn_end = self._quiet_since + turn_ms * SAMPLE_RATE // 1000
        if self._asked_at >= self._wait:
            return self._continue(self._stop(self._quiet_since, probability))
        return self._continue([TurnPause(self._quiet_since, probability)])

    def _continue(self, events: list[AudioEvent]) -> list[AudioEvent]:
        while self._waiting and not self._asks:
            events += self._frame(self._waiting.popleft())
        if self._stalled and not self._asks and self._quiet_since is not None:
            events += self._silent(self._quiet_since)
        self._forget()
        return merged(events)

    def finish(self, probabilities: Iterable[float]) -> list[AudioEvent]:
        """End the audio. `probabilities` belong to the last frame, which was padded with zeros.

        The endpointer does not ask any more, because no answer would matter.
        """
        events = self.push(np.zeros(0, np.int16), probabilities)
        self._asks = False
        total = self._end
        if self._ends_in_word:
            events += self._start(self._begin)
        if self._speaking:
            end = total if self._quiet_since is None else self._quiet_since
            limit = total if self._quiet_since is None else min(total, end + self._hangover)
            events += [*self._release(limit, "endpoint"), SpeechEnd(min(end, total))]
            self._speaking = False
        return merged(events)

    @property
    def state(self) -> EndpointerState:
        """The state from which another endpointer can continue. Not after `finish`."""
        return EndpointerState(
            self._decided,
            self._released,
            self._onset,
            self._quiet_since,
            self._speaking,
            self._turn_start,
            self._wait,
            self._turn_end,
            self._gap,
        )

    @property
    def kept_from(self) -> int:
        """The session sample from which another endpointer needs the audio."""
        return self._audio_start

    def turning_point(self, speech: int | None) -> int | None:
        """Return the next session sample at which a decision is possible, if known.

        There, `speech` more samples are passed on, or a silence has become long enough.
        """
        points = []
        if self._speaking and speech is not None:
            points.append(self._released + speech)
        if self._speaking and self._quiet_since is not None:
            points.append(self._quiet_since + self._enough - self._gap)
        return min((at for at in points if at > self._decided), default=None)

    @property
    def decided(self) -> int:
        """The session sample up to which voice activity is known."""
        return self._decided

    @property
    def passed(self) -> int:
        """The session sample up to which audio was passed on."""
        return self._released

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new endpointer would give the same results.

        None in speech, and as long as a turn may continue.
        """
        return None if self._in_turn else self._audio_start

    @property
    def _in_turn(self) -> bool:
        """Whether speech from now on would continue a turn."""
        return self._speaking or self._begin + self.gap < self._turn_end

    @property
    def _begin(self) -> int:
        """Where speech began that is not long enough yet, or where it can begin next."""
        return self._decided if self._onset is None else self._onset

    @property
    def _ends_in_word(self) -> bool:
        """Whether speech that has not been long enough is, if the audio ends here."""
        if self._speaking or self._onset is None:
            return False
        return self._decided - self._onset >= _MIN_LAST

    def _frame(self, probability: float) -> list[AudioEvent]:
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

    def _start(self, onset: int) -> list[AudioEvent]:
        continues = onset + self._gap < self._turn_end
        self._speaking, self._onset, self._quiet_since = True, None, None
        self._gap = 0
        self._released = max(self._released, onset - self._pre_roll, self._audio_start)
        if not continues:
            self._turn_start = self._released
        return [SpeechOnset(onset)]

    def _frame_of_speech(self, probability: float, start: int) -> list[AudioEvent]:
        resumed: list[AudioEvent] = []
        if probability >= self._threshold:
            if self._wait is not None:
                resumed.append(TurnResumption(start))
            self._quiet_since = self._wait = None
            self._gap = 0
        elif probability < self._low and self._quiet_since is None:
            self._quiet_since = start - _LAG
        if self._quiet_since is None:
            return [*resumed, *self._release(self._decided)]
        if ended := self._silent(self._quiet_since):
            return ended
        limit = self._quiet_since + self._hangover
        if self._decided < limit:
            return self._release(self._decided)
        return self._release(limit, "pause") if self._released < limit else []

    def _silent(self, quiet_since: int) -> list[AudioEvent]:
        """End speech, or ask, if the silence since then is long enough."""
        silence = self._decided - quiet_since + self._gap
        if silence + self._stalled < self._enough:
            return []
        if self._turns is None or self._wait is not None:
            return self._stop(quiet_since)
        self._asks, self._asked_at = True, max(silence, self._shortest)
        return []

    @property
    def _enough(self) -> int:
        """Samples of this silence after which something is decided."""
        return self._shortest if self._wait is None else self._wait

    def _stop(self, quiet_since: int, probability: float | None = None) -> list[AudioEvent]:
        """End speech: at once, with the turn model's `probability`, or after a silence."""
        stopped = SpeechEnd(quiet_since, probability)
        self._speaking, self._quiet_since, self._wait = False, None, None
        # After a time without audio, less than the hangover has come by the end. More may be here
        # already, but that depends on packets.
        until = min(quiet_since + self._hangover, self._decided)
        return [*self._release(until, "endpoint"), stopped]

    def _release(self, until: int, boundary: Boundary = "none") -> list[AudioEvent]:
        until = min(until, self._audio_start + len(self._audio))
        first, last = (s - self._audio_start for s in (self._released, until))
        chunk = AudioChunk(self._released, self._audio[first:last], boundary)
        self._released = max(self._released, until)
        return [chunk] if len(chunk.pcm) or boundary != "none" else []

    def _forget(self) -> None:
        """Drop audio except the pre-roll of a possible onset, and the turn model's input."""
        keep = self._released
        if not self._speaking:
            keep = max(keep, self._begin - self._pre_roll)
        if self._turns is not None and self._in_turn:
            keep = min(keep, max(self._turn_start, self._decided - TURN_SAMPLES))
        if keep > self._audio_start:
            self._audio = self._audio[keep - self._audio_start :].copy()
            self._audio_start = keep


# The settings of turn detection, under the names of OpenAI's protocols.


class ServerVadFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are in milliseconds; None stands for the server's default."""

    threshold: SpeechThreshold | None = None
    prefix_padding_ms: PreRollMs | None = None
    silence_duration_ms: SilenceMs | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the options in effect: these values, and the server's where one is None."""
        return EndpointingOptions.over(
            settings,
            threshold=self.threshold,
            min_silence_ms=self.silence_duration_ms,
            pre_roll_ms=self.prefix_padding_ms,
        )
