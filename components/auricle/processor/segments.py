"""Decides where partial decodes take place and where a segment ends. No I/O, no clock.

Decodes take place on a fixed grid from the segment's start; under load grid points are
skipped, never moved. A segment ends at the end of speech. A long segment ends at the next
pause, and at its maximum length it is cut at the quietest point before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE, SETTLED
from auricle.audio.segmentation import SegmentLimits
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
class Mark:
    """A pause or the end of speech at `offset` (samples from the segment's start)."""

    offset: int
    ends_speech: bool


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
    end = _segment_end(audio, marks, policy, not_before)
    if end is not None:
        return NextDecode(end, ends_segment=True)
    latest = audio.samples // policy.grid * policy.grid
    if latest // policy.grid < last_offset // policy.grid + stride:
        return None
    return NextDecode(latest, ends_segment=False)


def _segment_end(
    audio: SegmentAudio, marks: Sequence[Mark], policy: SegmentPolicy, not_before: int
) -> int | None:
    limits = policy.limits
    for mark in marks:
        if mark.offset > limits.maximum:
            break
        if mark.ends_speech or mark.offset >= limits.pause_after:
            return mark.offset
    if audio.samples < limits.maximum:
        return None
    return limits.forced_cut(audio.pcm, not_before)


def first_grid_point(after: int, until: int, grid: int) -> int:
    """Return the first multiple of `grid` after sample `after`, or `until` if that comes first."""
    return min(until, (after // grid + 1) * grid)
