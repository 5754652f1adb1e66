"""The sizes of the streaming benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Counts, and lengths in seconds.

    `sessions` are the short and the long session whose cost is measured, `repeats` times.
    `cap_seconds` is the length of a session of one segment; chunks in the interval `hurry` of it
    are not timed one by one. `baseline_points` are the decodes of a baseline up to 60 s of audio
    and beyond.
    """

    repeats: int
    sessions: tuple[int, int]
    cap_seconds: float
    hurry: tuple[float, float]
    baseline_points: tuple[int, int]
    words: int
    draft_words: int
    compared_segments: int
    gap_recordings: int
    wordless_recordings: int
    files: int


FULL = Scale(
    repeats=3,
    sessions=(60, 300),
    cap_seconds=300.0,
    hurry=(0.0, 0.0),
    baseline_points=(24, 20),
    words=10_000,
    draft_words=1_000,
    compared_segments=120,
    gap_recordings=120,
    wordless_recordings=90,
    files=40,
)
QUICK = Scale(
    repeats=1,
    sessions=(60, 300),
    cap_seconds=300.0,
    hurry=(21.0, 289.0),
    baseline_points=(14, 6),
    words=5_000,
    draft_words=300,
    compared_segments=40,
    gap_recordings=30,
    wordless_recordings=15,
    files=10,
)
# The same code with so few repetitions that the figures are meaningless.
SMOKE = Scale(
    repeats=1,
    sessions=(30, 92),
    cap_seconds=96.0,
    hurry=(12.0, 92.0),
    baseline_points=(2, 2),
    words=150,
    draft_words=50,
    compared_segments=4,
    gap_recordings=2,
    wordless_recordings=2,
    files=2,
)
SCALES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
