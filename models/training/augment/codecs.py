"""Effects of a line on speech: each function encodes samples at 16 kHz and decodes them again.

The output has the length and the timing of the input: the delay of a coder is removed.
"""

from __future__ import annotations

import random
from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
import soxr
from scipy.fft import next_fast_len

from auricle.audio.pcm import g711_table, to_int16
from models.training.augment.length import fitted

Samples = npt.NDArray[np.float32]
_RATE, _TELEPHONE = 16_000, 8_000
# Delay of the decoded audio in samples at 16 kHz.
_DELAYS = {"libopus": 104, "libmp3lame": 0}
_OPUS, _MP3 = (8, 32), (16, 64)  # kbit/s
_LOWEST, _HIGHEST = 300.0, 3400.0  # Hz, of a telephone


def g711(samples: Samples, law: str) -> Samples:
    """Return the samples after an 8 kHz telephone line; `law` is `ULAW` or `ALAW`."""
    narrow = band(soxr.resample(samples, _RATE, _TELEPHONE), _TELEPHONE, _LOWEST, _HIGHEST)
    levels = np.sort(g711_table(law).astype(np.float32))
    between = (levels[1:] + levels[:-1]) / 2
    coded = levels[np.searchsorted(between, np.clip(narrow, -1, 1) * 32768.0)] / 32768.0
    return fitted(soxr.resample(coded.astype(np.float32), _TELEPHONE, _RATE), len(samples))


def opus(samples: Samples, kbits: int) -> Samples:
    """Return the samples after Opus at `kbits` kbit/s."""
    return _coded(samples, "libopus", kbits)


def mp3(samples: Samples, kbits: int) -> Samples:
    """Return the samples after MP3 at `kbits` kbit/s."""
    return _coded(samples, "libmp3lame", kbits)


def band(samples: Samples, rate: int, lowest: float, highest: float) -> Samples:
    """Return only the frequencies between two limits (Hz), each edge a tenth of an octave wide."""
    size = next_fast_len(len(samples), real=True)
    spectrum = np.fft.rfft(samples, size)
    notes = np.maximum(np.fft.rfftfreq(size, 1 / rate), 1e-3).astype(np.float32)
    passed = np.clip(np.log2(notes / lowest) * 10 + 0.5, 0, 1)
    passed *= np.clip(np.log2(highest / notes) * 10 + 0.5, 0, 1)
    return np.fft.irfft(spectrum * passed, size)[: len(samples)].astype(np.float32)


def drawn(samples: Samples, dice: random.Random) -> Samples:
    """Return the samples after a random line: telephone, Opus, MP3 or band-limited microphone."""
    kind = dice.random()
    if kind < 0.45:
        return g711(samples, dice.choice(["ULAW", "ALAW"]))
    if kind < 0.65:
        return opus(samples, dice.randint(*_OPUS))
    if kind < 0.8:
        return mp3(samples, dice.randint(*_MP3))
    return band(samples, _RATE, dice.uniform(30, 250), dice.uniform(3200, 7900))


def _coded(samples: Samples, name: str, kbits: int) -> Samples:
    coder = av.AudioCodecContext.create(name, "w")
    coder.sample_rate, coder.layout, coder.bit_rate = _RATE, "mono", kbits * 1000
    coder.format = "s16" if name == "libopus" else "s16p"
    coder.time_base = Fraction(1, _RATE)
    coder.open()
    delay, size = _DELAYS[name], coder.frame_size
    count = -(-(len(samples) + delay) // size + 1) * size
    pcm = np.pad(to_int16(samples), (0, max(0, count - len(samples))))
    packets = [packet for at in range(0, len(pcm), size) for packet in coder.encode(
        _frame(pcm[at : at + size], coder.format.name, at))]  # fmt: skip
    packets += coder.encode(None)
    decoder = av.AudioCodecContext.create("libopus" if name == "libopus" else "mp3", "r")
    decoder.sample_rate, decoder.layout = _RATE, "mono"
    mono = av.AudioResampler("fltp", "mono", _RATE)
    frames = [frame for packet in [*packets, None] for frame in decoder.decode(packet)]
    decoded = np.concatenate([part.to_ndarray()[0] for frame in frames
                              for part in mono.resample(frame)])  # fmt: skip
    return fitted(decoded[delay:], len(samples))


def _frame(pcm: npt.NDArray[np.int16], form: str, at: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(pcm[None], format=form, layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = _RATE, at, Fraction(1, _RATE)
    return frame
