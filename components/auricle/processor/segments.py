"""Decides where decodes take place. No I/O, no clock.

Partial decodes take place on a fixed grid from the segment's start; under load grid points are
skipped, never moved. The last one is at the segment's end (see `audio.segmentation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE, SETTLED
from auricle.audio.segmentation import Mark, SegmentLimits
from auricle.processor.windows import SegmentAudio


@dataclass(frozen=True)
class SegmentPolicy:
    """Where decodes take place and segments end; `grid` is the samples between two decodes."""

    grid: int
    limits: SegmentLimits

    @classmethod
    def from_seconds(
        cls, *, chunk_ms: int, pause_after: float, maximum: float, search: float
    ) -> SegmentPolicy:
        """Return the policy of a session; times are in seconds unless they say `_ms`.

        The maximum length of a segment is at least one chunk. See `SegmentLimits`.
        """
        return cls(
            grid=chunk_ms * SAMPLE_RATE // 1000,
            limits=SegmentLimits.from_seconds(
                pause_after=pause_after, maximum=max(maximum, chunk_ms / 1000), search=search
            ),
        )

    def samples_until_work(self, offset: int, *, ahead: bool) -> int:
        """Return how many samples a segment of `offset` samples needs until its next work.

        Work is due at the next grid point; with `ahead` also once the frames of the next
        second are final.
        """
        until = self.grid - offset % self.grid
        if not ahead:
            return until
        finished = max(offset - SETTLED, 0) // SAMPLE_RATE
        return min(until, (finished + 1) * SAMPLE_RATE + SETTLED - offset)


@dataclass(frozen=True)
class NextDecode:
    """Decode the segment's first `offset` samples; `ends_segment`: the text becomes final."""

    offset: int
    ends_segment: bool


def next_decode(
    audio: SegmentAudio,
    marks: Sequence[Mark],
    policy: SegmentPolicy,
    *,
    last_offset: int,
    not_before: int,
    stride: int = 1,
) -> NextDecode | None:
    """Return the decode that is due, or None if none is due.

    A partial decode is due `stride` grid points after `last_offset`. A forced cut
    never lies before `not_before`, the offset by which all committed words had been spoken:
    a word after the cut would be transcribed in both segments. Offsets are in samples from the
    segment's start.
    """
    end = policy.limits.segment_end(marks, audio.samples, audio.pcm, not_before)
    if end is not None:
        return NextDecode(end, ends_segment=True)
    latest = audio.samples // policy.grid * policy.grid
    if latest // policy.grid < last_offset // policy.grid + stride:
        return None
    return NextDecode(latest, ends_segment=False)


def first_grid_point(after: int, until: int, grid: int) -> int:
    """Return the first multiple of `grid` after sample `after`, or `until` if that comes first."""
    return min(until, (after // grid + 1) * grid)
