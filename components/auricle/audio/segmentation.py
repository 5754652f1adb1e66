"""Segmentation: one rule for live sessions and recordings. No I/O.

A segment ends at the end of speech. A long segment ends at the next pause, and at its maximum
length it is cut at the quietest point before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.audio.constants import HOP, SAMPLE_RATE
from auricle.audio.pcm import Int16, to_float

_SMOOTH_FRAMES = 20  # 200 ms: longer than the closure of a plosive


def frame_energy_db(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the RMS level of each 10 ms in dBFS, floored at −100; shape (len(samples) // 160,)."""
    count = len(samples) // HOP
    blocks = samples[: count * HOP].reshape(count, HOP).astype(np.float64)
    rms = np.sqrt(np.mean(blocks**2, axis=1))
    level: npt.NDArray[np.float64] = 20.0 * np.log10(np.maximum(rms, 1e-5))
    return level


def quietest_point(samples: npt.NDArray[np.float32]) -> int:
    """Return the middle sample of the quietest 200 ms; the latest of equally quiet ones.

    Returns the length of `samples` if they are no longer than 200 ms.
    """
    level = frame_energy_db(samples)
    if len(level) <= _SMOOTH_FRAMES:
        return len(samples)
    smooth = np.convolve(level, np.ones(_SMOOTH_FRAMES) / _SMOOTH_FRAMES, mode="valid")
    start = len(smooth) - 1 - int(np.argmin(smooth[::-1]))
    return (start + _SMOOTH_FRAMES // 2) * HOP


def middle_cut(samples: int, pcm: Callable[[int, int], Int16], not_before: int = 0) -> int | None:
    """Return the quietest point in the middle half of a segment of `samples` samples.

    None if `not_before` is in its second half, and if the client sent features instead of samples.
    For `pcm` see `SegmentLimits.forced_cut`.
    """
    start = max(not_before, samples // 4)
    if start > samples // 2:
        return None
    middle = pcm(start, samples * 3 // 4)
    return start + quietest_point(to_float(middle)) if len(middle) else None


# Samples. A shorter segment contains no word and is not decoded.
SHORTEST_SEGMENT = SAMPLE_RATE // 10


@dataclass(frozen=True)
class Mark:
    """A pause or the end of speech at `offset` (samples from the segment's start)."""

    offset: int
    ends_speech: bool


def after_cut(marks: Sequence[Mark], offset: int) -> list[Mark]:
    """Return the marks of the segment that begins at `offset`, relative to its start."""
    return [Mark(m.offset - offset, m.ends_speech) for m in marks if m.offset > offset]


@dataclass(frozen=True)
class SegmentLimits:
    """The limits of a segment, in samples.

    A segment ends at the first pause after `pause_after`. If none comes, it is cut at the
    quietest point of the `search` samples before `maximum`.
    """

    pause_after: int
    maximum: int
    search: int

    @classmethod
    def from_seconds(cls, *, pause_after: float, maximum: float, search: float) -> SegmentLimits:
        """Convert the limits from seconds."""
        return cls(
            pause_after=int(pause_after * SAMPLE_RATE),
            maximum=int(maximum * SAMPLE_RATE),
            search=int(search * SAMPLE_RATE),
        )

    def segment_end(
        self,
        marks: Sequence[Mark],
        samples: int,
        pcm: Callable[[int, int], Int16],
        not_before: int = 0,
    ) -> int | None:
        """Return the end of a segment with `samples` samples so far, or None if it continues.

        `marks` are in order. The answer does not depend on what follows the segment's end. For
        `pcm` and `not_before` see `forced_cut`.
        """
        for mark in marks:
            if mark.offset > self.maximum:
                break
            if mark.ends_speech or mark.offset >= self.pause_after:
                return mark.offset
        return None if samples < self.maximum else self.forced_cut(pcm, not_before)

    def forced_cut(self, pcm: Callable[[int, int], Int16], not_before: int = 0) -> int:
        """Return the sample at which a segment of at least `maximum` samples is cut.

        `pcm(start, end)` returns the segment's int16 samples; no cut lies before `not_before`.
        """
        start = max(not_before, self.maximum - self.search)
        return start + quietest_point(to_float(pcm(start, self.maximum)))
