"""Where decodes happen and where a segment ends. Pure logic.

Decodes lie on a fixed grid of the segment; load may skip grid points, never
move them. Until voice activity is known, a segment ends at a pause once it is
long enough, and at the quietest point near its cap at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import to_float
from auricle.audio.quiet import ends_in_pause, quietest_point
from auricle.processor.windows import SegmentAudio

_PAUSE_LOOK_BACK = 5 * SAMPLE_RATE  # how much speech a pause is compared with
_PAUSE_SAMPLES = int(0.3 * SAMPLE_RATE)


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
class NextDecode:
    """Decode the segment's first `offset` samples; if `ends_segment`, for good."""

    offset: int
    ends_segment: bool


def next_decode(
    audio: SegmentAudio, policy: SegmentPolicy, last_offset: int, not_before: int
) -> NextDecode | None:
    """What to decode now, or None if no grid point has been reached since `last_offset`.

    `not_before` is where the last committed word may still lie: a cut before it
    would give that word to two segments. Every grid point is looked at, so the
    end of a segment does not depend on which were decoded.
    """
    latest = audio.samples // policy.grid * policy.grid
    point = last_offset // policy.grid * policy.grid + policy.grid
    while point <= latest:
        cut = _cut(audio, policy, point, not_before)
        if cut is not None:
            return NextDecode(cut, ends_segment=True)
        point += policy.grid
    return NextDecode(latest, ends_segment=False) if latest > last_offset else None


def _cut(audio: SegmentAudio, policy: SegmentPolicy, point: int, not_before: int) -> int | None:
    if point >= policy.maximum:
        start = max(not_before, point - policy.search, 0)
        return start + quietest_point(to_float(audio.pcm(start, point)))
    if point >= policy.pause_after:
        recent = to_float(audio.pcm(max(0, point - _PAUSE_LOOK_BACK), point))
        if ends_in_pause(recent):
            return max(not_before, point - _PAUSE_SAMPLES // 2)
    return None
