"""A session's incoming audio: ordered, idempotent, bounded."""

from __future__ import annotations

import asyncio

import numpy as np

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.errors import Overloaded, ProtocolError


class AudioInbox:
    """Samples between the frontend's pushes and the session's decodes.

    `received` counts samples of the whole session, `consumed` those the session
    has taken over for good; the difference is bounded and a push waits for room.
    """

    def __init__(self, start_sample: int, max_buffered_seconds: float) -> None:
        self.received = start_sample
        self.total: int | None = None
        self._consumed = start_sample
        self._limit = int(max_buffered_seconds * SAMPLE_RATE)
        self._pending: list[Int16] = []
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def push(self, start_sample: int, pcm: bytes, seconds: float) -> int:
        """Take samples not received yet; returns samples received so far.

        Raises ProtocolError on a gap, odd bytes or audio after the end, and
        Overloaded if there is no room within `seconds`.
        """
        if len(pcm) % 2:
            raise ProtocolError(f"{len(pcm)} bytes are not whole 16-bit samples")
        if self.total is not None:
            raise ProtocolError("audio after the end of the session")
        if start_sample > self.received:
            raise ProtocolError(
                f"audio starts at sample {start_sample}, but only {self.received} were received"
            )
        try:
            await asyncio.wait_for(self._room.wait(), seconds)
        except TimeoutError:
            raise Overloaded(
                f"{self._limit / SAMPLE_RATE:g} s of audio are waiting to be decoded"
            ) from None
        samples = np.frombuffer(pcm, "<i2")[max(0, self.received - start_sample) :]
        if len(samples):
            self._pending.append(samples)
            self.received += len(samples)
            self._update_room()
            self._changed.set()
        return self.received

    def end(self, total_samples: int) -> int:
        """No more audio. Raises ProtocolError unless all of it was received."""
        if total_samples != self.received:
            raise ProtocolError(
                f"the session ends at sample {total_samples}, but {self.received} were received"
            )
        self.total = total_samples
        self._changed.set()
        return self.received

    async def changed(self) -> None:
        """Until audio or the end arrives that `take` has not returned."""
        await self._changed.wait()

    def take(self) -> Int16:
        """All samples that arrived since the last call, without waiting."""
        if self.total is None:
            self._changed.clear()
        parts, self._pending = self._pending, []
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)

    def consumed(self, sample: int) -> None:
        """The session has decoded everything before `sample`."""
        self._consumed = max(self._consumed, sample)
        self._update_room()

    def _update_room(self) -> None:
        if self.received - self._consumed < self._limit:
            self._room.set()
        else:
            self._room.clear()
