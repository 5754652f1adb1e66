"""A session's incoming audio: ordered, idempotent, bounded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np

from auricle.audio.features import FeaturePacket
from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.errors import DeadlineExceeded, Overloaded, ProtocolError
from auricle.messages import Boundary
from auricle.tasks import within


@dataclass(frozen=True)
class Audio:
    """Samples from session sample `start` on, what their end is, and when they arrived."""

    start: int
    pcm: Int16
    boundary: Boundary
    features: FeaturePacket | None = None
    arrived: float = 0.0  # monotonic


class AudioInbox:
    """Samples between the frontend's pushes and the session's decodes.

    `received` is the session sample after the last one received. What was received
    and not yet consumed (decoded for good or for now) is bounded: a push waits for room.
    """

    def __init__(self, start_sample: int, max_buffered_seconds: float) -> None:
        self.received = start_sample
        self.total: int | None = None
        # Set while a segment's end is waiting to be taken: a decode under way is worth little.
        self.closing = asyncio.Event()
        self._limit = int(max_buffered_seconds * SAMPLE_RATE)
        self._pending: list[Audio] = []
        self._spans: list[tuple[int, int]] = []  # received and not consumed
        self._between = True  # nothing received yet, or the last piece was an endpoint
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def push(
        self,
        start_sample: int,
        pcm: bytes,
        seconds: float,
        boundary: Boundary = "none",
        features: FeaturePacket | None = None,
    ) -> int:
        """Take samples not received yet; returns the session sample after the last one.

        Raises ProtocolError on a gap inside speech, odd bytes or audio after the end,
        and Overloaded if there is no room within `seconds`.
        """
        if len(pcm) % 2:
            raise ProtocolError(f"{len(pcm)} bytes are not whole 16-bit samples")
        if self.total is not None:
            raise ProtocolError("audio after the end of the session")
        if start_sample > self.received and not self._between:
            raise ProtocolError(
                f"audio starts at sample {start_sample}, but only {self.received} were received"
            )
        try:
            await within(seconds, self._room.wait(), "room")
        except DeadlineExceeded:
            raise Overloaded(
                f"{self._limit / SAMPLE_RATE:g} s of audio are waiting to be decoded"
            ) from None
        self._take_in(start_sample, np.frombuffer(pcm, "<i2"), boundary, features)
        return self.received

    def _take_in(
        self,
        start_sample: int,
        samples: Int16,
        boundary: Boundary,
        features: FeaturePacket | None,
    ) -> None:
        end = start_sample + len(samples) if features is None else features.end
        begin = max(start_sample, self.received)
        if end < self.received or (end == self.received and (boundary == "none" or self._between)):
            return  # a repetition
        # Packets of features are whole: what is repeated was received whole before.
        pcm = samples[begin - start_sample :]
        self._pending.append(Audio(begin, pcm, boundary, features, time.monotonic()))
        self._spans.append((begin, end))
        self.received = end
        self._between = boundary == "endpoint"
        if self._between:
            self.closing.set()
        self._update_room()
        self._changed.set()

    def end(self, total_samples: int) -> int:
        """No more audio; silence may follow speech that has ended. Raises ProtocolError."""
        if total_samples < self.received or (total_samples > self.received and not self._between):
            raise ProtocolError(
                f"the session ends at sample {total_samples}, but {self.received} were received"
            )
        self.total = total_samples
        self.closing.set()
        self._changed.set()
        return self.received

    def wake(self) -> None:
        """End the wait in `changed` though nothing came."""
        self._changed.set()

    async def changed(self) -> None:
        """Until audio or the end arrives that `take` has not returned, or `wake`."""
        await self._changed.wait()

    def take(self) -> list[Audio]:
        """All audio that arrived since the last call, without waiting."""
        if self.total is None:
            self._changed.clear()
            self.closing.clear()
        taken, self._pending = self._pending, []
        return taken

    def consumed(self, sample: int) -> None:
        """The session has decoded everything before `sample`."""
        self._spans = [(max(a, sample), b) for a, b in self._spans if b > sample]
        self._update_room()

    def _update_room(self) -> None:
        if sum(end - start for start, end in self._spans) < self._limit:
            self._room.set()
        else:
            self._room.clear()
