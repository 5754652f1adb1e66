"""Attacks by name that once succeeded, or that nobody had tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attacks import inside, live, recordings, resumes
from benchmarks.hostile.attacks.newcomer import Held


@dataclass(frozen=True)
class Attack:
    """`run(target, scale)` tries it; `scale` (0 to 1] is its size. `seconds`: it ends by then."""

    run: Callable[[Target, float], Awaitable[Held]]
    seconds: float = 90.0


_ATTACKS = (
    live.one_byte_frames,
    live.ping_flood,
    live.small_events,
    live.faster_than_real_time,
    live.come_and_go,
    live.failed_starts,
    live.silent_connections,
    live.feature_offsets,
    live.feature_extremes,
    live.echo,
    resumes.false_tokens,
    resumes.one_token_many_times,
    recordings.tiny_packets,
    recordings.hours_of_silence,
    recordings.many_channels,
    recordings.media_bombs,
    recordings.slow_bodies,
    recordings.other_files,
    inside.strangers_inside,
    inside.the_witness_impersonated,
    inside.readable_by_others,
    inside.beyond_loopback,
    inside.log_flood,
    inside.key_of_another,
)
CAMPAIGN: dict[str, Attack] = {run.__name__: Attack(run) for run in _ATTACKS}
CAMPAIGN["media_bombs"] = Attack(recordings.media_bombs, seconds=600.0)
