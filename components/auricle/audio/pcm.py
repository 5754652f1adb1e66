"""Converts streamed PCM of any packet size to 16 kHz mono int16."""

from __future__ import annotations

import io
from functools import lru_cache
from math import gcd
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import check_rate

# Resampling of live streams with little delay, independent of the packet sizes. soxr filters in
# long blocks: it holds back 64 ms of 8 kHz audio on average, 115 at worst, and 21 and 37 of 24 or
# 48 kHz. At the rates of telephones and browsers 16 kHz has a short period of the client's rate,
# and a plain filter is cheap: one matrix product per packet.

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

# Share of the lower bandwidth that passes unchanged, as in soxr's HQ.
_PASSBAND = 0.913
_STOPBAND_DB = 80.0
# Outputs per product: fewer increase the overhead, more increase the delay (1 ms per 16).
_BLOCK = 16
# For a longer period the matrix is large and its outputs are late: soxr resamples those.
_LONGEST_PERIOD = 8
# Products of 16-bit samples and taps with this many bits, and their sums, are exact in float64: the
# result depends neither on the order of additions nor on the packet sizes.
_TAP_BITS = 24


class Resampler(Protocol):
    """Converts a stream of float32 samples to 16 kHz. Not thread-safe."""

    def resample_chunk(self, x: Float32, last: bool = False) -> Float32:
        """Convert the next samples, of shape (samples,); `last` also returns held samples."""


def stream_resampler(rate: int) -> Resampler:
    """Return the resampler for a stream of `rate` Hz."""
    common = gcd(rate, SAMPLE_RATE)
    if max(rate, SAMPLE_RATE) // common <= _LONGEST_PERIOD:
        return PolyphaseResampler(rate)
    # In int16 soxr would add dither, which differs between streams: the same audio would give
    # different texts in two sessions.
    in_blocks: Resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    return in_blocks


class _Filter(NamedTuple):
    """A window of inputs times `taps`, float64 (window, outputs), is a block of outputs.

    A block's first output is `ahead` inputs after its window's first; the next block's window
    begins `step` inputs later.
    """

    taps: Float64
    ahead: int
    step: int


@lru_cache(maxsize=_LONGEST_PERIOD)
def _filter(rate: int) -> _Filter:
    """Design the low-pass: a sinc under Kaiser's window (Oppenheim and Schafer, section 7.6).

    The window's shape and length follow from the stop band and the width of the transition.
    """
    bandwidth = min(rate, SAMPLE_RATE) / 2
    transition = (1 - _PASSBAND) * bandwidth
    cutoff = bandwidth - transition / 2
    half = (_STOPBAND_DB - 8) / (2.285 * 2 * np.pi * transition) / 2  # seconds
    ahead = int(np.ceil(half * rate))
    common = gcd(rate, SAMPLE_RATE)
    up, down = SAMPLE_RATE // common, rate // common
    periods = max(1, _BLOCK // up)
    outputs, step = periods * up, periods * down
    window = step - down // up + 2 * ahead + 1
    # The time from an output to an input, in seconds.
    apart = (np.arange(window)[:, None] - ahead) / rate - np.arange(outputs) / SAMPLE_RATE
    within = np.clip(1 - (apart / half) ** 2, 0, None)
    beta = 0.1102 * (_STOPBAND_DB - 8.7)
    taps = np.sinc(2 * cutoff * apart) * np.i0(beta * np.sqrt(within)) / np.i0(beta)
    taps *= (within > 0) * 2 * cutoff / rate
    scale = float(1 << _TAP_BITS)
    return _Filter(np.round(taps * scale) / scale, ahead, step)


class PolyphaseResampler:
    """Resamples with a finite filter; its delay is half its length, 4 ms (8 ms from 8 kHz)."""

    def __init__(self, rate: int) -> None:
        self._filter = _filter(rate)
        self._rate = rate
        self._held: Float64 = np.zeros(self._filter.ahead)
        self._received = self._given = 0

    def resample_chunk(self, x: Float32, last: bool = False) -> Float32:
        """Convert the next samples, of shape (samples,); `last` also returns held samples."""
        self._received += len(x)
        taps, ahead, step = self._filter
        window, outputs = taps.shape
        ending = np.zeros(window + ahead if last else 0)
        held = np.concatenate((self._held, x, ending))
        blocks = (len(held) - window) // step + 1
        if blocks <= 0:
            self._held = held
            return np.zeros(0, np.float32)
        windows = np.lib.stride_tricks.as_strided(
            held, (blocks, window), (step * held.itemsize, held.itemsize), writeable=False
        )
        found = (np.ascontiguousarray(windows) @ taps).reshape(blocks * outputs)
        self._held = held[blocks * step :].copy()
        if last:
            found = found[: -(-self._received * SAMPLE_RATE // self._rate) - self._given]
        self._given += len(found)
        return found.astype(np.float32)


Int16 = npt.NDArray[np.int16]
# Signed 16-bit little-endian, and G.711 µ-law and A-law.
ENCODINGS = ("pcm_s16le", "pcm_mulaw", "pcm_alaw")
_G711 = {"pcm_mulaw": "ULAW", "pcm_alaw": "ALAW"}


# The first bytes of files that clients send as if they were samples.
_CONTAINERS = {
    b"\x1aE\xdf\xa3": "WebM or Matroska",
    b"OggS": "Ogg",
    b"fLaC": "FLAC",
    b"ID3\x02": "MP3",
    b"ID3\x03": "MP3",
    b"ID3\x04": "MP3",
}


def container_of(data: bytes) -> str | None:
    """Return the name of the container whose mark the data begins with, None without one."""
    return "MP4" if data[4:8] == b"ftyp" else _CONTAINERS.get(data[:4])


class PcmStream:
    """Converts one client's stream. Not thread-safe.

    A sample may be split between packets. An incomplete sample at the end is dropped.
    """

    def __init__(self, sample_rate: int, encoding: str = "pcm_s16le", skip: int = 0) -> None:
        """`sample_rate` is in Hz (BadRequest if unsupported); `encoding` is one of `ENCODINGS`.

        The first `skip` 16 kHz samples are converted and dropped.
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
        """Return the samples that the resampler holds."""
        return self._convert(np.zeros(0, np.int16), last=True)

    def _convert(self, samples: Int16, *, last: bool) -> Int16:
        if self._resampler is not None:
            found = self._resampler.resample_chunk(samples.astype(np.float32), last=last)
            samples = np.clip(np.rint(found), -32768, 32767).astype(np.int16)
        if not self._skip:
            return samples
        dropped = min(self._skip, len(samples))
        self._skip -= dropped
        return samples[dropped:]


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
