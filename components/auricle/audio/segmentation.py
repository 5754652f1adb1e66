"""Where long speech is cut. Pure: the same rule for live sessions and recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16, to_float
from auricle.audio.quiet import quietest_point


@dataclass(frozen=True)
class SegmentLimits:
    """All values in samples. A segment ends at the first pause from `pause_after` on, and
    at the quietest point of the last `search` before `maximum` at the latest."""

    pause_after: int
    maximum: int
    search: int

    @classmethod
    def from_seconds(cls, *, pause_after: float, maximum: float, search: float) -> SegmentLimits:
        """The limits as settings give them."""
        return cls(
            pause_after=int(pause_after * SAMPLE_RATE),
            maximum=int(maximum * SAMPLE_RATE),
            search=int(search * SAMPLE_RATE),
        )

    def forced_cut(self, pcm: Callable[[int, int], Int16], not_before: int = 0) -> int:
        """Where a segment of at least `maximum` samples is cut; `pcm(start, end)` reads it."""
        start = max(not_before, self.maximum - self.search)
        return start + quietest_point(to_float(pcm(start, self.maximum)))
