"""Where a segment's features come from: its samples, or the client."""

from __future__ import annotations

import numpy as np

from auricle.audio.features import FeaturePacket
from auricle.audio.mel import BINS, FFT, HOP, Frames, IncrementalLogMel
from auricle.audio.pcm import Int16, to_float


class PcmSource:
    """Features of samples."""

    def __init__(self) -> None:
        self._mel = IncrementalLogMel()
        self._parts: list[Int16] = []
        self.samples = 0

    def push(self, pcm: Int16) -> None:
        """Append 16 kHz samples."""
        self._parts.append(pcm)
        self.samples += len(pcm)

    def pcm(self, start: int, end: int) -> Int16:
        """Samples [start, end) of the segment."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0][start:end] if self._parts else np.zeros(0, np.int16)

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Frames (samples // 160, 128) as if the segment ended there, and their maximum."""
        if samples < self._mel.samples:
            # A cut lies before the last decode: later audio must not show in the maximum.
            self._mel = IncrementalLogMel()
        self._mel.push(to_float(self.pcm(self._mel.samples, samples)))
        return self._mel.frames(samples)


class FeatureSource:
    """Features as the client sent them."""

    def __init__(self) -> None:
        self._frames = np.zeros((0, BINS), np.float32)
        # The frames at a packet's end that a later packet replaced, by where it ended: a
        # decode there sees what it would have seen had nothing followed.
        self._at_ends: dict[int, Frames] = {}
        self.samples = 0

    def push(self, packet: FeaturePacket) -> None:
        """Append a packet; packets are whole and in order."""
        self._frames = np.concatenate([self._frames[: packet.first_frame], packet.frames])
        self.samples = packet.samples
        final = max(0, (packet.samples - FFT // 2) // HOP + 1)
        self._at_ends[packet.samples] = self._frames[final:].copy()

    def pcm(self, _start: int, _end: int) -> Int16:
        """There are no samples."""
        return np.zeros(0, np.int16)

    def frames(self, samples: int) -> tuple[Frames, float]:
        """See `PcmSource.frames`; exact where a packet ended."""
        frames = self._frames[: samples // HOP]
        changed = self._at_ends.get(samples)
        if changed is not None and len(changed):
            frames = np.concatenate([frames[: -len(changed)], changed])
        return frames, float(frames.max())
