"""Noise as speech, for detectors that depend on loudness only."""

from __future__ import annotations

import numpy as np


def noise(samples: int) -> bytes:
    """Return loud noise, 16-bit."""
    values = np.random.default_rng(samples).integers(-9_000, 9_000, samples)
    return values.astype("<i2").tobytes()


def speech_like(samples: int, rate: int = 16_000) -> bytes:
    """Return alternating noise and silence, 0.6 s each, for as many starts and ends as possible."""
    values = np.frombuffer(noise(samples), "<i2").copy()
    values[(np.arange(samples) * 10 // (6 * rate)) % 2 == 1] = 0
    return values.tobytes()
