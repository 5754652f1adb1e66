"""Takes the channels of interleaved audio apart. No I/O."""

from __future__ import annotations

import numpy as np

_SAMPLE_BYTES = 2


class ChannelSplitter:
    """Splits a client's interleaved 16-bit PCM into its channels, however its packets are cut."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._rest = b""  # of a moment of which not all channels have come

    def push(self, data: bytes) -> list[bytes]:
        """Return what `data` completes: the same number of whole samples for each channel."""
        data = self._rest + data
        whole = len(data) - len(data) % (_SAMPLE_BYTES * self._channels)
        self._rest = data[whole:]
        moments = np.frombuffer(data[:whole], "<i2").reshape(-1, self._channels)
        return [moments[:, channel].tobytes() for channel in range(self._channels)]

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their moment."""
        return len(self._rest)
