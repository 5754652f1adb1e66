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
        scale = _SCALES[samples.dtype.str[1:]]
        planes: Float32 = samples.astype(np.float32, copy=False)
        if samples.dtype == np.uint8:
            planes = planes - np.float32(128.0)
        if self._channel is not None or len(planes) == 1:
            picked: Float32 = planes[self._channel or 0] * scale
            return picked
        mean: Float32 = planes.mean(axis=0, dtype=np.float32)
        loudest = self._loudest(planes, mean, float(scale), frame.samples / frame.sample_rate)
        return (planes[loudest] if self.cancelled else mean) * scale

    def _loudest(self, planes: Float32, mean: Float32, scale: float, seconds: float) -> int:
        """Return the number of the loudest channel; note whether the mean is too quiet."""
        if len(self._energies) != len(planes):
            self._mean_energy, self._energies = 0.0, np.zeros(len(planes))
        kept = 0.5 ** (seconds / _HALF_LIFE)
        share = (1 - kept) * scale**2 / len(mean)
        self._mean_energy = kept * self._mean_energy + share * float(np.dot(mean, mean))
        energies = np.einsum("ij,ij->i", planes, planes)
        self._energies = kept * self._energies + share * energies
        loudest = int(self._energies.argmax())
        alone = self._energies[loudest] / len(planes) ** 2
        self.cancelled = bool(self._mean_energy < _CANCELLED * alone and alone > _SILENCE)
        return loudest


def _planes(frame: av.AudioFrame) -> npt.NDArray[Any]:
    """Return the samples of each channel, shape (channels, samples)."""
    samples: npt.NDArray[Any] = frame.to_ndarray()
    if frame.format.is_planar:
        return samples
    return samples.reshape(-1, frame.layout.nb_channels).T
