"""The sources of a segment's features: computed from samples, or received from the client."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import BINS, HOP, Frames
from auricle.audio.features import FeaturePacket, final_frames
from auricle.audio.mel import IncrementalLogMel
from auricle.audio.pcm import Int16, to_float
from auricle.audio.semicausal_mel import SemicausalLogMel
from auricle.checkpoint.geometry import FrontEnd


class _Growing:
    """An array that grows at its end; appending costs what is appended, on average."""

    def __init__(self, empty: npt.NDArray[Any]) -> None:
        self._values = empty
        self._length = len(empty)

    def put(self, at: int, values: npt.NDArray[Any]) -> None:
        """Replace everything from index `at` on, which is at most the length."""
        self._length = at + len(values)
        if self._length > len(self._values):
            larger = np.empty((2 * self._length, *self._values.shape[1:]), self._values.dtype)
            larger[:at] = self._values[:at]
            self._values = larger
        self._values[at : self._length] = values

    @property
    def values(self) -> npt.NDArray[Any]:
        """What was put, as a view; what is put later over an index shows in it."""
        return self._values[: self._length]


class _LogMel(Protocol):
    """Computes the frames of a segment as it grows."""

    @property
    def samples(self) -> int: ...

    def push(self, pcm: npt.NDArray[np.float32]) -> None: ...

    def frames(self, samples: int) -> tuple[Frames, float]: ...


def _log_mel(front_end: FrontEnd, bins: int) -> _LogMel:
    return SemicausalLogMel() if front_end == "semicausal" else IncrementalLogMel(bins)


class PcmSource:
    """Computes log-mel frames from the segment's samples. One user at a time."""

    def __init__(self, front_end: FrontEnd = "whisper", bins: int = BINS) -> None:
        self._front_end, self._bins = front_end, bins
        self._mel = _log_mel(front_end, bins)
        self._pcm = _Growing(np.zeros(0, np.int16))
        self.samples = 0

    def push(self, pcm: Int16) -> None:
        """Append 16 kHz mono samples."""
        self._pcm.put(self.samples, pcm)
        self.samples += len(pcm)

    def pcm(self, start: int, end: int) -> Int16:
        """Return samples [start, end) of the segment."""
        return self._pcm.values[start:end]

    def frames(self, samples: int) -> tuple[Frames, float]:
        """Return the frames as if the segment ended after `samples`, and their maximum.

        The frames are unclamped log-mel, (samples // 160, bins) float32.
        """
        if samples < self._mel.samples:
            # A cut lies before the last decode: the maximum must not include later audio.
            self._mel = _log_mel(self._front_end, self._bins)
        self._mel.push(to_float(self.pcm(self._mel.samples, samples)))
        return self._mel.frames(samples)


class FeatureSource:
    """Collects the log-mel frames that the client sent. One user at a time."""

    def __init__(self) -> None:
        self._frames = _Growing(np.zeros((0, BINS), np.float32))
        # By the end of a packet in samples: its last frames, which the next packet replaces. A
        # decode at that end uses them, as if no audio had followed.
        self._at_ends: dict[int, Frames] = {}
        self.samples = 0

    def push(self, packet: FeaturePacket) -> None:
        """Append the next packet; its frames replace those from `first_frame` on."""
        self._frames.put(packet.first_frame, packet.frames)
        self.samples = packet.samples
        self._at_ends[packet.samples] = self._frames.values[final_frames(packet.samples) :].copy()

    def pcm(self, _start: int, _end: int) -> Int16:
        """Return no samples: the client sent features only."""
        return np.zeros(0, np.int16)

    def frames(self, samples: int) -> tuple[Frames, float]:
        """As `PcmSource.frames`; exact if a packet ended at `samples`."""
        frames: Frames = self._frames.values[: samples // HOP].copy()  # the last are replaced later
        changed = self._at_ends.get(samples)
        if changed is not None and len(changed):
            frames = np.concatenate([frames[: -len(changed)], changed])
        return frames, float(frames.max())
