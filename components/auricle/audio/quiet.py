"""Finds the quietest point of a signal, where a segment can be cut."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import HOP

_SMOOTH_FRAMES = 20  # 200 ms: longer than the closure of a plosive


def frame_energy_db(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the RMS level of each 10 ms in dBFS, floored at −100; shape (len(samples) // 160,)."""
    count = len(samples) // HOP
    blocks = samples[: count * HOP].reshape(count, HOP).astype(np.float64)
    rms = np.sqrt(np.mean(blocks**2, axis=1))
    level: npt.NDArray[np.float64] = 20.0 * np.log10(np.maximum(rms, 1e-5))
    return level


def quietest_point(samples: npt.NDArray[np.float32]) -> int:
    """Return the middle sample of the quietest 200 ms; of equally quiet ones, the latest.

    Returns the length of `samples` if they are no longer than 200 ms.
    """
    level = frame_energy_db(samples)
    if len(level) <= _SMOOTH_FRAMES:
        return len(samples)
    smooth = np.convolve(level, np.ones(_SMOOTH_FRAMES) / _SMOOTH_FRAMES, mode="valid")
    start = len(smooth) - 1 - int(np.argmin(smooth[::-1]))
    return (start + _SMOOTH_FRAMES // 2) * HOP
