"""Noise in place of speech, for detectors that go by loudness."""

from __future__ import annotations

import numpy as np


def noise(samples: int) -> bytes:
    """Return loud noise, 16-bit."""
    values = np.random.default_rng(samples).integers(-9_000, 9_000, samples)
    return values.astype("<i2").tobytes()


def speech_like(samples: int, rate: int = 16_000) -> bytes:
    """Return noise and silence in turn, 0.6 s each: as many starts and ends as can be."""
    values = np.frombuffer(noise(samples), "<i2").copy()
    values[(np.arange(samples) * 10 // (6 * rate)) % 2 == 1] = 0
    return values.tobytes()
