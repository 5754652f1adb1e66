"""A session's incoming audio: ordered, idempotent, bounded. No I/O, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import Int16
from auricle.core.errors import ProtocolError
from auricle.protocol.sessions import Boundary

# Pieces that may wait to be taken. They are taken at once, on the event loop of all sessions.
_MOST_PIECES = 128


@dataclass(frozen=True)
class ReceivedAudio:
    """Samples that begin at session sample `start`, and what happens at their end (`boundary`).

    `pcm` is 16 kHz mono, or empty if the client sent `features`. `arrived` is the time of
    arrival in seconds of the caller's clock.
    """

    start: int
    pcm: Int16
    boundary: Boundary
    features: FeaturePacket | None = None
    arrived: float = 0.0


class AudioInbox:
    """Buffers samples between the frontend's pushes and the session's decodes.

    `received` is the session sample after the last one received; `total` is the session's
    length in samples, or None until it is known. `segment_ended` is true from the arrival of a
    segment's or the session's end until `take`. `paused_at` is the session sample of the last
    pause received. Not thread-safe.
    """

    def __init__(self, start_sample: int, limit: int) -> None:
        """Start at session sample `start_sample`; the inbox is full at `limit` samples."""
        self.received = start_sample
        self.total: int | None = None
        self.segment_ended = False
        self.paused_at = start_sample
        # Nothing was received, or an endpoint was received last: the next audio may leave a gap.
        self.between_segments = True
        self._limit = limit
        self._pending: list[ReceivedAudio] = []
        # Ranges [start, end) of audio not consumed, sorted and merged, and their total length.
        self._unconsumed: deque[tuple[int, int]] = deque()
        self._unconsumed_samples = 0

    @property
    def full(self) -> bool:
        """Whether pushes must wait until audio has been consumed."""
        return self._unconsumed_samples >= self._limit or len(self._pending) >= _MOST_PIECES

    @property
    def limit_seconds(self) -> float:
        """The amount of audio at which the inbox is full."""
        return self._limit / SAMPLE_RATE

    def check(self, start_sample: int, pcm: bytes) -> None:
        """Raise ProtocolError on a gap within speech, an odd number of bytes, or audio after
        the session's end."""
        if len(pcm) % 2:
            raise ProtocolError(f"{len(pcm)} bytes are not whole 16-bit samples")
        if self.total is not None:
            raise ProtocolError("audio after the end of the session")
        if start_sample > self.received and not self.between_segments:
            raise ProtocolError(
                f"audio starts at sample {start_sample}, but only {self.received} were received"
            )

    def push(
        self,
        start_sample: int,
        pcm: bytes,
        boundary: Boundary = "none",
        features: FeaturePacket | None = None,
        arrived: float = 0.0,
    ) -> None:
        """Receive audio that begins at `start_sample`; samples received before are ignored.

        `pcm` is 16 kHz mono int16, little-endian. `arrived` is in seconds of the caller's
        clock. Does not check `full`. Raises ProtocolError as `check` does.
        """
        self.check(start_sample, pcm)
        samples = np.frombuffer(pcm, "<i2")
        end = start_sample + len(samples) if features is None else features.end
        begin = max(start_sample, self.received)
        repeated = end == self.received and (boundary == "none" or self.between_segments)
        if end < self.received or repeated:
            return
        # Only samples are cut: a feature packet is repeated as a whole or not at all.
        new = samples[begin - start_sample :]
        self._pending.append(ReceivedAudio(begin, new, boundary, features, arrived))
        self._count(begin, end)
        self.received = end
        self.between_segments = boundary == "endpoint"
        self.segment_ended = self.segment_ended or self.between_segments
        if boundary == "pause":
            self.paused_at = end

    def end(self, total_samples: int) -> None:
        """Declare that the session has `total_samples` samples.

        Between segments this may be more than were received, as silence is not sent. Raises
        ProtocolError if it is less, or if audio within speech is missing.
        """
        gap = total_samples > self.received and not self.between_segments
        if total_samples < self.received or gap:
            raise ProtocolError(
                f"the session ends at sample {total_samples}, but {self.received} were received"
            )
        self.total = total_samples
        self.segment_ended = True

    def take(self) -> list[ReceivedAudio]:
        """Return the audio received since the last call, in order."""
        self.segment_ended = self.total is not None
        taken, self._pending = self._pending, []
        return taken

    def consumed(self, sample: int) -> None:
        """Release the audio before session sample `sample`, which has been decoded."""
        while self._unconsumed and self._unconsumed[0][0] < sample:
            start, end = self._unconsumed.popleft()
            self._unconsumed_samples -= min(end, sample) - start
            if end > sample:
                self._unconsumed.appendleft((sample, end))

    def _count(self, begin: int, end: int) -> None:
        self._unconsumed_samples += end - begin
        if self._unconsumed and self._unconsumed[-1][1] == begin:
            begin, _ = self._unconsumed.pop()
        self._unconsumed.append((begin, end))
