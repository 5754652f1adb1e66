"""Decodes audio files to 16 kHz mono float32, in worker threads, not on an event loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.errors import BadRequest

MIN_RATE, MAX_RATE = 4_000, 192_000  # Hz

Float32 = npt.NDArray[np.float32]


def read_audio(path: Path) -> Float32:
    """Decode a WAV, FLAC, MP3 or Ogg file; channels are averaged.

    Returns float32 of shape (samples,) in [-1, 1] at 16 kHz. Raises BadRequest if the file is
    missing, unreadable, empty, not finite, or has a sample rate outside the supported range.
    """
    if not path.is_file():
        raise BadRequest(f"no such audio file: {path}")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.SoundFileError:
        raise BadRequest(f"{path.name} is not readable as WAV, FLAC, MP3 or Ogg") from None
    check_rate(rate)
    if len(samples) == 0:
        raise BadRequest(f"{path.name} contains no audio")
    mono = samples.mean(axis=1, dtype=np.float32)
    if not np.isfinite(mono).all():
        raise BadRequest(f"{path.name} contains samples that are not finite numbers")
    return resample(mono, rate)


def resample(samples: Float32, rate: int) -> Float32:
    """Resample float32 of shape (samples,) from `rate` Hz to 16 kHz with soxr (high quality)."""
    if rate == SAMPLE_RATE:
        return samples
    resampled: Float32 = soxr.resample(samples, rate, SAMPLE_RATE)
    return resampled


def check_rate(rate: int) -> None:
    """Raise BadRequest unless `rate` (Hz) lies in [MIN_RATE, MAX_RATE]."""
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadRequest(f"sample rate {rate} Hz is outside {MIN_RATE} to {MAX_RATE} Hz")
