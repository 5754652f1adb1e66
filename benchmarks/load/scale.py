"""How much of everything the load suite measures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.load.capacity import Condition

# Live speech at the default cadence. In a session of about half a minute, most of the work is at
# endpoints; costs that grow with a session's length do not show yet.
LIVE = Condition(640, (10.0, 60.0), seconds=300.0, worst_wer=0.25)
# One session of a heavier checkpoint, to measure the time of each step, not the capacity.
SLOW = Condition(640, (5.0, 20.0), seconds=60.0)


@dataclass(frozen=True)
class Scale:
    """Counts, and seconds of trials; `baselines` are those compared with in a search.

    A search goes up to `most` sessions and is repeated; in each of `recorded_rounds` all servers
    get the same recordings; `long_seconds` is the length of `long_files` recordings by checkpoint;
    `short_at_a_time` are the concurrencies at which short recordings are uploaded, if any.
    """

    live: Condition
    slow: Condition
    most: int
    repeats: int
    resolution: float
    baselines: tuple[str, ...]
    half_seconds: float
    overload_seconds: float
    traced_seconds: float
    profiled_seconds: int
    control_sessions: tuple[int, ...]
    control_seconds: float
    engine_seconds: float
    hop_reads: int
    recorded_rounds: int
    long_files: int
    long_seconds: dict[str, float]
    short_at_a_time: tuple[int, ...]
    soak_seconds: float
    soak_warm_up_seconds: float


FULL = Scale(
    live=LIVE,
    slow=SLOW,
    most=256,
    repeats=3,
    resolution=0.05,
    baselines=("a", "b", "vllm-realtime", "a-segmented", "b-segmented"),
    half_seconds=180.0,
    overload_seconds=180.0,
    traced_seconds=30.0,
    profiled_seconds=25,
    control_sessions=(50, 25, 75, 100),
    control_seconds=25.0,
    engine_seconds=10.0,
    hop_reads=300,
    recorded_rounds=3,
    long_files=16,
    long_seconds={"demo": 600.0, "10x": 600.0},
    short_at_a_time=(1, 8, 32, 128),
    soak_seconds=3600.0,
    soak_warm_up_seconds=1800.0,
)
QUICK = replace(
    FULL,
    repeats=1,
    resolution=0.34,
    live=replace(LIVE, lengths=(10.0, 20.0), seconds=40.0),
    half_seconds=40.0,
    overload_seconds=50.0,
    control_sessions=(50,),
    engine_seconds=5.0,
    recorded_rounds=1,
    long_files=8,
    long_seconds={"demo": 300.0, "10x": 120.0},
    short_at_a_time=(),
)
# The same code with so little of everything that the figures are meaningless.
SMOKE = replace(
    QUICK,
    live=replace(LIVE, lengths=(2.0, 3.0), seconds=9.0),
    slow=replace(SLOW, lengths=(4.0, 5.0), seconds=15.0),
    most=1,
    half_seconds=9.0,
    overload_seconds=9.0,
    traced_seconds=9.0,
    profiled_seconds=4,
    control_sessions=(2,),
    control_seconds=10.0,
    engine_seconds=1.0,
    hop_reads=20,
    long_files=2,
    long_seconds={"demo": 20.0, "10x": 10.0},
    short_at_a_time=(2,),
    soak_seconds=24.0,
    soak_warm_up_seconds=5.0,
)
SCALES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
