"""Gathers samples that come in pieces of any size into blocks of one size. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from auricle.audio.decode import Float32


class Blocks:
    """One stream's samples, float32. Each sample is copied once, however small its piece.

    `size` is in samples.
    """

    def __init__(self, size: int) -> None:
        self._block = np.empty(size, np.float32)
        self._filled = 0

    def push(self, samples: Float32) -> Iterator[Float32]:
        """Take samples, shape (n,), and yield the blocks they fill, shape (size,)."""
        while len(samples):
            taken = samples[: len(self._block) - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            samples = samples[len(taken) :]
            if self._filled == len(self._block):
                yield self.rest()

    def rest(self) -> Float32:
        """Return the samples that fill no block yet, and forget them."""
        rest = self._block[: self._filled].copy()
        self._filled = 0
        return rest
