"""A turn model whose result depends on each sample."""

from __future__ import annotations

import numpy as np

from auricle.audio.pcm import Int16


def judged(pcm: Int16) -> float:
    """A probability that depends on each sample, and on their number."""
    return float(np.abs(pcm.astype(np.int64) * (np.arange(len(pcm)) % 7 + 1)).sum() % 100) / 100
