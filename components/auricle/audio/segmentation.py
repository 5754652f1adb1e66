"""Decides where long speech is cut: one rule for live sessions and recordings. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_float
from auricle.audio.quiet import quietest_point


@dataclass(frozen=True)
class SegmentLimits:
    """When a segment must end; all values are in samples.

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

    def forced_cut(self, pcm: Callable[[int, int], Int16], not_before: int = 0) -> int:
        """Return the sample at which a segment of at least `maximum` samples is cut.

        `pcm(start, end)` returns the segment's int16 samples; no cut lies before `not_before`.
        """
        start = max(not_before, self.maximum - self.search)
        return start + quietest_point(to_float(pcm(start, self.maximum)))
