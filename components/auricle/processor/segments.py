"""Where decodes happen and where a segment ends. Pure logic.

Decodes lie on a fixed grid of the segment; load may skip grid points, never
move them. A segment ends where speech ends; once it is long, at the next pause;
and at the quietest point near its cap at the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.segmentation import SegmentLimits
from auricle.processor.windows import SegmentAudio


@dataclass(frozen=True)
class SegmentPolicy:
    """`grid`: samples between two decodes."""

    grid: int
    limits: SegmentLimits

    @classmethod
    def from_seconds(
        cls, *, chunk_ms: int, pause_after: float, maximum: float, search: float
    ) -> SegmentPolicy:
        """The policy of a session; a segment is never capped below one chunk."""
        return cls(
            grid=chunk_ms * SAMPLE_RATE // 1000,
            limits=SegmentLimits.from_seconds(
                pause_after=pause_after, maximum=max(maximum, chunk_ms / 1000), search=search
            ),
        )


@dataclass(frozen=True)
class Mark:
    """Speech pauses, or ends, at `offset` (samples of the segment)."""

    offset: int
    ends_speech: bool


@dataclass(frozen=True)
class NextDecode:
    """Decode the segment's first `offset` samples; if `ends_segment`, for good."""

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
    """What to decode now, or None if no grid point has been reached since `last_offset`.

    `not_before` is where the last committed word may still lie: a cut before it
    would give that word to two segments. `stride` is how many grid points apart
    decodes are at least.
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
