"""Streamed PCM: bytes of any size in, 16 kHz mono int16 out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

from auricle.audio.decode import check_rate
from auricle.audio.mel import SAMPLE_RATE
from auricle.errors import ProtocolError

Int16 = npt.NDArray[np.int16]


class PcmStream:
    """Converts one client's `pcm_s16le` stream. Not thread-safe.

    Samples may be split between packets; a stream that ends on half a sample
    is an error.
    """

    def __init__(self, sample_rate: int) -> None:
        check_rate(sample_rate)
        self._odd = b""
        self._resampler = (
            None
            if sample_rate == SAMPLE_RATE
            else soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="int16")
        )

    def push(self, data: bytes) -> Int16:
        """Samples now complete; may be empty."""
        data = self._odd + data
        whole = len(data) & ~1
        self._odd = data[whole:]
        return self._convert(np.frombuffer(data[:whole], "<i2"), last=False)

    def end(self) -> Int16:
        """What the resampler still held back. Raises ProtocolError on half a sample."""
        if self._odd:
            raise ProtocolError(
                "the audio ended on an odd number of bytes; pcm_s16le has two bytes per sample"
            )
        return self._convert(np.zeros(0, np.int16), last=True)

    def _convert(self, samples: Int16, *, last: bool) -> Int16:
        if self._resampler is None:
            return samples
        resampled: Int16 = self._resampler.resample_chunk(samples, last=last)
        return resampled


def to_float(pcm: Int16) -> npt.NDArray[np.float32]:
    """int16 → float32 in [-1, 1)."""
    return pcm.astype(np.float32) / np.float32(32768.0)


def to_int16(samples: npt.NDArray[np.float32]) -> Int16:
    """float32 in [-1, 1] → int16, clipped."""
    return np.clip(np.round(samples * 32768.0), -32768, 32767).astype(np.int16)
