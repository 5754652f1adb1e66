"""Converts streamed PCM of any packet size to 16 kHz mono int16."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import soundfile

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import check_rate
from auricle.audio.resampling import stream_resampler
from auricle.errors import ProtocolError

Int16 = npt.NDArray[np.int16]
# Signed 16-bit little-endian, and G.711 µ-law and A-law.
ENCODINGS = ("pcm_s16le", "pcm_mulaw", "pcm_alaw")
_G711 = {"pcm_mulaw": "ULAW", "pcm_alaw": "ALAW"}


class PcmStream:
    """Converts one client's stream. Not thread-safe.

    A sample may be split between packets. A stream that ends within a sample is an error.
    """

    def __init__(self, sample_rate: int, encoding: str = "pcm_s16le", skip: int = 0) -> None:
        """`sample_rate` is in Hz (BadRequest if unsupported); `encoding` is one of `ENCODINGS`.

        The first `skip` 16 kHz samples are converted and left out.
        """
        check_rate(sample_rate)
        self._skip = skip
        self._odd = b""
        self._table = g711_table(_G711[encoding]) if encoding in _G711 else None
        self.sample_bytes = 2 if self._table is None else 1
        self._resampler = None if sample_rate == SAMPLE_RATE else stream_resampler(sample_rate)

    def push(self, data: bytes) -> Int16:
        """Convert the samples that `data` completes; the result may be empty."""
        if self._table is not None:
            return self._convert(self._table[np.frombuffer(data, np.uint8)], last=False)
        data = self._odd + data
        whole = len(data) & ~1
        self._odd = data[whole:]
        return self._convert(np.frombuffer(data[:whole], "<i2"), last=False)

    def end(self) -> Int16:
        """Return the samples the resampler still holds. Raises ProtocolError on half a sample."""
        if self._odd:
            raise ProtocolError(
                "the audio ended on an odd number of bytes; pcm_s16le has two bytes per sample"
            )
        return self._convert(np.zeros(0, np.int16), last=True)

    def _convert(self, samples: Int16, *, last: bool) -> Int16:
        if self._resampler is not None:
            found = self._resampler.resample_chunk(samples.astype(np.float32), last=last)
            samples = np.clip(np.rint(found), -32768, 32767).astype(np.int16)
        if not self._skip:
            return samples
        left_out = min(self._skip, len(samples))
        self._skip -= left_out
        return samples[left_out:]


@lru_cache(maxsize=2)
def g711_table(law: str) -> Int16:
    """Return the int16 sample of each of the 256 G.711 codes; `law` is ULAW or ALAW."""
    every_byte = io.BytesIO(bytes(range(256)))
    table, _ = soundfile.read(
        every_byte, dtype="int16", samplerate=8000, channels=1, format="RAW", subtype=law
    )
    return np.asarray(table, np.int16)


def milliseconds(samples: int) -> int:
    """Convert a number of 16 kHz samples to milliseconds, rounded down."""
    return samples * 1000 // SAMPLE_RATE


def to_float(pcm: Int16) -> npt.NDArray[np.float32]:
    """Convert int16 to float32 in [-1, 1)."""
    return pcm.astype(np.float32) / np.float32(32768.0)


def to_int16(samples: npt.NDArray[np.float32]) -> Int16:
    """Convert float32 in [-1, 1] to int16, clipped."""
    return np.clip(np.round(samples * 32768.0), -32768, 32767).astype(np.int16)
