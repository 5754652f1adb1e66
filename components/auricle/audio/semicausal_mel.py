"""Incremental log-mel of Gemma 4, of which every frame is final as soon as it is there.

Universal Speech Model features: 16 kHz, frames of 320 samples every 160, 128 HTK mel bins of the
magnitudes of a 512-point FFT, natural logarithm of what is 0.001 more. Frame k covers samples
160k−160 … 160k+159, silence before the first, and is there once sample 160k+160 has arrived.
Nothing depends on the maximum of the segment, so nothing is clamped.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import BINS, HOP, SAMPLE_RATE, Frames
from auricle.audio.mel_tables import htk_filters

_LENGTH = 2 * HOP  # samples of a frame
_FFT = 512
_FLOOR = 1e-3
# As in mel.py: matrix products of one shape round alike, however the client cut its packets.
_BLOCK = 16


# A periodic Hann window, in the precision of the published one.
_WINDOW = (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(_LENGTH) / _LENGTH)).astype(np.float32)


class SemicausalLogMel:
    """Computes the log-mel of one segment; each block of 16 whole frames is computed once.

    Not thread-safe: one thread at a time may use it.
    """

    def __init__(self) -> None:
        self._padded = np.zeros(HOP, np.float64)  # silence, and the samples not yet dropped
        self._dropped = 0  # of the padded ones
        self._final: list[Frames] = []  # blocks of _BLOCK frames

    @property
    def samples(self) -> int:
        """Number of samples received."""
        return self._dropped + len(self._padded) - HOP

    def push(self, pcm: npt.NDArray[np.float32]) -> None:
        """Append 16 kHz samples in [-1, 1], of shape (samples,)."""
        self._padded = np.concatenate([self._padded, pcm.astype(np.float64)])

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Return the frames that are there after `samples`, and -inf: nothing is clamped.

        They are float32 of shape ((samples - 1) // 160, 128). Raises ValueError if `samples`
        exceeds those received or does not make a frame.
        """
        if samples > self.samples:
            raise ValueError(f"{samples} samples requested, {self.samples} received")
        count = (samples - 1) // HOP
        if count < 1:
            raise ValueError(f"log-mel needs at least {HOP + 1} samples, got {samples}")
        while len(self._final) < count // _BLOCK:
            self._final.append(self._computed(len(self._final) * _BLOCK, _BLOCK))
        whole, rest = divmod(count, _BLOCK)
        tail = [self._computed(whole * _BLOCK, rest)] if rest else []
        self._drop_until(len(self._final) * _BLOCK * HOP)
        return np.concatenate([*self._final[:whole], *tail]), -np.inf

    def _computed(self, start: int, count: int) -> Frames:
        """Compute `count` frames from `start` on, at most a block of them."""
        slices = np.zeros((_BLOCK, _LENGTH))
        first = start * HOP - self._dropped
        part = self._padded[first : first + (count - 1) * HOP + _LENGTH]
        slices[:count] = np.lib.stride_tricks.sliding_window_view(part, _LENGTH)[::HOP]
        magnitudes = np.abs(np.fft.rfft(slices * _WINDOW, n=_FFT, axis=1))
        log_mel: Frames = np.log(magnitudes @ htk_filters(BINS, _FFT) + _FLOOR).astype(np.float32)
        return log_mel[:count]

    def _drop_until(self, padded: int) -> None:
        """Discard samples that only whole blocks needed, a second or more at a time."""
        if padded - self._dropped > SAMPLE_RATE:
            self._padded = self._padded[padded - self._dropped :]
            self._dropped = padded
