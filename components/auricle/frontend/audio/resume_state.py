"""The state of voice activity detection and endpointing as data, from which they can continue.

From a checkpoint, with the audio from its `sample` on, another frontend finds the same speech and
the same pauses as the first one would have.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.voice_activity import VoiceState

# 16 kHz samples that a resampler needs before its output is as if it had begun earlier.
_WARM_UP = SAMPLE_RATE // 10


class EndpointerState(msgspec.Struct, frozen=True, array_like=True):
    """The state of an `Endpointer`, without the audio it keeps; see there.

    All are session samples, except `wait` and `gap`, which are numbers of samples. Speech before
    `turn_end` continues the turn that began at `turn_start`.
    """

    decided: int
    released: int
    onset: int | None
    quiet_since: int | None
    speaking: bool = False
    turn_start: int = 0
    wait: int | None = None
    turn_end: int = 0
    gap: int = 0


class SavedVoiceState(msgspec.Struct, frozen=True, array_like=True):
    """A `VoiceState` after its last whole frame: both arrays as float32, little-endian."""

    recurrent: bytes
    context: bytes

    @classmethod
    def of(cls, state: VoiceState) -> SavedVoiceState:
        """Save `state`, without the samples of an incomplete frame."""
        return cls(
            *(part.astype("<f4", copy=False).tobytes() for part in (state.recurrent, state.context))
        )

    def state(self) -> VoiceState:
        """Return a state that continues from here."""
        fresh = VoiceState()
        return VoiceState(
            np.frombuffer(self.recurrent, "<f4").reshape(fresh.recurrent.shape),
            np.frombuffer(self.context, "<f4").reshape(fresh.context.shape),
        )


class AudioCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """The state from which endpointing can continue, given the audio from session sample `sample`.

    Speech up to session sample `passed` was passed on before. The client had sent `received`
    samples (16 kHz) before `sample`; with features that is less, because silence is not sent.
    `gate` and `voice` are None without any state.
    """

    sample: int = 0
    passed: int = 0
    received: int = 0
    gate: EndpointerState | None = None
    voice: SavedVoiceState | None = None


BEGIN = AudioCheckpoint()


class Stall(msgspec.Struct, frozen=True, array_like=True):
    """At session sample `at` the client sent nothing for the time of `samples`."""

    at: int
    samples: int


def client_sample(sample: int, rate: int) -> int:
    """Return from which of its samples a client of `rate` Hz must send again for `sample`.

    With another rate than 16 kHz that is at least 0.1 s earlier, and where a 16 kHz sample falls
    on one of the client's: a resampler that begins there gives the same as the one before.
    """
    return _periods(sample, rate) * (rate // math.gcd(rate, SAMPLE_RATE))


def left_out(sample: int, rate: int) -> int:
    """Return how many 16 kHz samples lie between `client_sample` and `sample`."""
    return sample - _periods(sample, rate) * (SAMPLE_RATE // math.gcd(rate, SAMPLE_RATE))


def _periods(sample: int, rate: int) -> int:
    warm_up = 0 if rate == SAMPLE_RATE else _WARM_UP
    return max(0, sample - warm_up) // (SAMPLE_RATE // math.gcd(rate, SAMPLE_RATE))
