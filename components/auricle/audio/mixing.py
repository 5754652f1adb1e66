"""Mixes a recording's channels to one. No I/O."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import numpy.typing as npt

from auricle.audio.decode import Float32

# Factors that scale samples of each type to [-1, 1].
_SCALES = {
    **{"u1": np.float32(2.0**-7), "i2": np.float32(2.0**-15), "i4": np.float32(2.0**-31)},
    **{"i8": np.float32(2.0**-63), "f4": np.float32(1.0), "f8": np.float32(1.0)},
}
# If one of n channels has sound, their mean has 1/n² of its energy. Channels that cancel each other
# leave less than a quarter of that; a second channel with the sign changed leaves nothing.
_CANCELLED = 0.25
_HALF_LIFE = 0.1  # seconds, of a frame's weight
# Mean squares, below 16-bit rounding noise at −90 dB: silence has no louder channel.
_SILENCE = 1e-9


class Mixer:
    """Averages the channels of frames, or selects one.

    Where the channels cancel each other, the louder one is used instead: a phone or an interface
    may change the sign of one, and the mean of both is then silence. The decision depends on the
    energies of the last few tenths of a second, so that a moment does not change it.
    """

    def __init__(self, channel: int | None = None) -> None:
        self._channel = channel
        self._mean_energy = 0.0
        self._energies = np.zeros(0)
        self.cancelled = False  # in the last frame

    def mix(self, frame: av.AudioFrame) -> Float32:
        """Return a frame's samples, float32 (samples,) in [-1, 1]."""
        self.cancelled = False
        samples = _planes(frame)
        if self._channel is not None:
            return _scaled(samples[self._channel].astype(np.float32), samples.dtype)
        mean = _scaled(samples.mean(axis=0, dtype=np.float32), samples.dtype)
        if len(samples) == 1:
            return mean
        return self._louder(samples, mean, frame.samples / frame.sample_rate)

    def _louder(self, samples: npt.NDArray[Any], mean: Float32, seconds: float) -> Float32:
        if len(self._energies) != len(samples):
            self._mean_energy, self._energies = 0.0, np.zeros(len(samples))
        kept = 0.5 ** (seconds / _HALF_LIFE)
        planes = [_scaled(plane.astype(np.float32), samples.dtype) for plane in samples]
        energies = np.array([_energy(plane) for plane in planes])
        self._mean_energy = kept * self._mean_energy + (1 - kept) * _energy(mean)
        self._energies = kept * self._energies + (1 - kept) * energies
        loudest = int(np.argmax(self._energies))
        alone = self._energies[loudest] / len(samples) ** 2
        self.cancelled = bool(self._mean_energy < _CANCELLED * alone and alone > _SILENCE)
        return planes[loudest] if self.cancelled else mean


def _planes(frame: av.AudioFrame) -> npt.NDArray[Any]:
    """Return the samples of each channel, shape (channels, samples)."""
    samples: npt.NDArray[Any] = frame.to_ndarray()
    if frame.format.is_planar:
        return samples
    return samples.reshape(-1, frame.layout.nb_channels).T


def _scaled(samples: Float32, dtype: np.dtype[Any]) -> Float32:
    if dtype == np.uint8:
        samples -= np.float32(128.0)
    scaled: Float32 = samples * _SCALES[dtype.str[1:]]
    return scaled


def _energy(samples: Float32) -> float:
    return float(np.dot(samples, samples)) / max(len(samples), 1)
