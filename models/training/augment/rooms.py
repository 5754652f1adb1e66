"""Room acoustics: the echoes that reach a microphone along with the voice.

The response is the direct sound, some early echoes and a tail of noise that decays exponentially,
by 60 dB within the reverberation time (Polack's model of a room).
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]
_RATE = 16_000
_DECAY = 6.9  # of the amplitude's logarithm within the reverberation time: 60 dB
_EARLY = (0.002, 0.04)  # s after the direct sound
_TIMES, _RATIOS = (0.1, 0.7), (-2.0, 18.0)  # s, and dB of direct sound over all that follows


def response(seed: int, seconds: float, ratio: float) -> Samples:
    """Return the response of a room at 16 kHz; its first sample is the direct sound, 1.

    `seconds` is the reverberation time, `ratio` the energy of the direct sound over the rest in dB.
    """
    dice = np.random.default_rng(seed)
    time = np.arange(1, int(seconds * _RATE)) / _RATE
    tail = dice.standard_normal(len(time)) * np.exp(-_DECAY * time / seconds)
    for _ in range(dice.integers(3, 8)):
        at = dice.uniform(*_EARLY)
        tail[min(int(at * _RATE), len(tail) - 1)] += dice.choice([-1, 1]) * 8 * np.exp(-at / 0.02)
    # Walls and air absorb high frequencies: damp these in the echoes.
    tail = 0.6 * tail + 0.4 * np.concatenate([[0.0], tail[:-1]])
    energy = float((tail**2).sum())
    whole = np.concatenate([[1.0], tail * np.sqrt(10 ** (-ratio / 10) / energy)])
    return whole.astype(np.float32)


def placed(samples: Samples, room: Samples) -> Samples:
    """Return the samples with the room's response, in the same length."""
    size = 1 << (len(samples) + len(room) - 2).bit_length()
    product = np.fft.rfft(samples, size) * np.fft.rfft(room, size)
    return np.fft.irfft(product, size)[: len(samples)].astype(np.float32)


def drawn(dice: random.Random) -> Samples:
    """Return the response of a random room."""
    return response(dice.getrandbits(32), dice.uniform(*_TIMES), dice.uniform(*_RATIOS))
