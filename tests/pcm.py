"""Recordings as live clients send them: 16-bit samples."""

from __future__ import annotations

import numpy as np
import soxr

from auricle_testing import recordings

PACKET = 3_200


def pcm(name: str, silence_seconds: float = 0.0) -> bytes:
    samples = np.concatenate([recordings.samples(name), np.zeros(int(16_000 * silence_seconds))])
    return np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes()


def resampled_pcm(name: str, rate: int = 24_000, pause_seconds: float = 1.0) -> np.ndarray:
    samples = np.concatenate([recordings.samples(name), np.zeros(int(16_000 * pause_seconds))])
    resampled = soxr.resample(samples, 16_000, rate)
    return np.clip(np.round(resampled * 32767), -32768, 32767).astype("<i2")
