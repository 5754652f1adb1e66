"""How much each part measures: at the published geometry, or only whether everything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes and seconds of all parts; checkpoints are names of `benchmarks.checkpoints`, and
    `whisper` of `benchmarks.whispers`.

    `checkpoint_1_7b` need only have the encoder of that size. A closed loop runs for `seconds`.
    """

    checkpoint: str
    checkpoint_1_7b: str
    whisper: str
    seconds: float
    # ceilings
    matrix: int  # rows and columns of the matrices that are multiplied
    copied_bytes: int
    # encoder: windows of a pass; the figures are for the last number
    windows: tuple[int, ...]
    # encode worker: requests in flight
    requests: tuple[int, ...]
    # PD engine: decodes in flight, and sessions that take turns
    decodes: tuple[int, ...]
    sessions: int
    # hop
    reads: int
    # streams
    drivers: int  # processes
    first: int  # the number of streams that is tried first
    most: int
    resolution: float
    segment_seconds: float
    trial_seconds: float


FULL = Scale(
    checkpoint="0.6b", checkpoint_1_7b="1.7b-encoder", whisper="whisper-large-v3-turbo",
    seconds=4.0,
    matrix=8192, copied_bytes=1 << 32,
    windows=(1, 8, 32, 128, 64), requests=(1, 8, 32, 64),
    decodes=(1, 16, 64, 128, 192), sessions=48,
    reads=300,
    drivers=8, first=128, most=4096, resolution=0.1, segment_seconds=15.0, trial_seconds=15.0,
)  # fmt: skip
QUICK = Scale(
    checkpoint="tiny", checkpoint_1_7b="tiny", whisper="whisper-quick", seconds=0.3,
    matrix=256, copied_bytes=1 << 22,
    windows=(1, 4), requests=(1, 4),
    decodes=(1, 4), sessions=4,
    reads=20,
    drivers=2, first=1, most=2, resolution=0.5, segment_seconds=3.0, trial_seconds=3.0,
)  # fmt: skip
