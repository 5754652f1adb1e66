"""What a log-mel is made with: a window and filters, equal to transformers' own.

Importing those would cost a process that runs no model seconds of its start, and PyTorch's memory.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import FFT, SAMPLE_RATE

Table = npt.NDArray[np.float64]

# Slaney's scale is linear up to 1 kHz, which is 15 mels, and logarithmic from there on.
_LINEAR_HERTZ, _LINEAR_MELS = 1000.0, 15.0


@lru_cache(maxsize=4)
def mel_tables(bins: int) -> tuple[Table, Table]:
    """Return the periodic Hann window, (400,), and Slaney's mel filters, (201, bins)."""
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(FFT) / FFT)
    half = SAMPLE_RATE / 2
    top = _LINEAR_MELS + np.log(half / _LINEAR_HERTZ) * (27.0 / np.log(6.4))
    corners = _hertz(np.linspace(0.0, top, bins + 2))
    slopes = corners - np.linspace(0.0, half, FFT // 2 + 1)[:, None]
    widths = np.diff(corners)
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    # Triangles between neighbours, all of the same area.
    area = 2.0 / (corners[2:] - corners[:-2])
    return window, np.maximum(0.0, np.minimum(rising, falling)) * area


def _hertz(mels: Table) -> Table:
    hertz = 200.0 * mels / 3.0
    above = mels >= _LINEAR_MELS
    steps = mels[above] - _LINEAR_MELS
    hertz[above] = _LINEAR_HERTZ * np.exp(np.log(6.4) / 27.0 * steps)
    return hertz
