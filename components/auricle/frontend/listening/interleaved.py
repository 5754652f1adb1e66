"""Splits the audio of several channels, sample by sample in turn, into one stream each. No I/O."""

from __future__ import annotations

import numpy as np


class Interleaved:
    """Splits one client's audio, in packets of any size, however they cut its samples."""

    def __init__(self, channels: int, sample_bytes: int) -> None:
        """There are so many `channels`, with samples of so many bytes."""
        self._channels = channels
        self._sample_bytes = sample_bytes
        self._part = b""  # of what all channels have at one time

    def split(self, data: bytes) -> list[bytes]:
        """Return the whole samples of each channel that `data` completes."""
        if self._channels == 1 and self._sample_bytes == 1:
            return [data]
        data = self._part + data if self._part else data
        size = self._channels * self._sample_bytes
        whole = len(data) - len(data) % size
        self._part = data[whole:]
        if self._channels == 1 or not whole:
            return [data[:whole]] * self._channels
        samples = np.frombuffer(data, np.uint8, whole)
        samples = samples.reshape(-1, self._channels, self._sample_bytes)
        return [samples[:, number].tobytes() for number in range(self._channels)]
