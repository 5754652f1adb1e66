"""Restores the number of samples after a transformation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def fitted(samples: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    """Return the first `count` samples, with silence after them if there are fewer."""
    return np.pad(samples[:count], (0, max(0, count - len(samples)))).astype(np.float32)
