"""Where decodes happen and where a segment ends. Pure logic.

Decodes lie on a fixed grid of the segment; load may skip grid points, never
move them. A segment ends where speech ends; once it is long, at the next pause;
and at the quietest point near its cap at the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import to_float
from auricle.audio.quiet import quietest_point
from auricle.processor.windows import SegmentAudio


@dataclass(frozen=True)
class SegmentPolicy:
    """All values in samples."""

    grid: int
    pause_after: int
    maximum: int
    search: int

    @classmethod
    def from_seconds(
        cls, *, chunk_ms: int, pause_after: float, maximum: float, search: float
    ) -> SegmentPolicy:
        """The policy of a session; a segment is never capped below one chunk."""
        grid = chunk_ms * SAMPLE_RATE // 1000
        return cls(
            grid=grid,
            pause_after=int(pause_after * SAMPLE_RATE),
            maximum=max(int(maximum * SAMPLE_RATE), grid),
            search=int(search * SAMPLE_RATE),
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
    for mark in marks:
        if mark.offset > policy.maximum:
            break
        if mark.ends_speech or mark.offset >= policy.pause_after:
            return mark.offset
    if audio.samples < policy.maximum:
        return None
    start = max(not_before, policy.maximum - policy.search)
    return start + quietest_point(to_float(audio.pcm(start, policy.maximum)))
