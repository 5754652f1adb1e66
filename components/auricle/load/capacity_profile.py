"""The capacity of one worker of each pool, as `auricle profile` measures it.

The *knee* of a worker is its saturation point: the load beyond which its 95th percentile
response time exceeds `response_seconds`. Load is counted in workers at their knee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.core.errors import SettingsError
from auricle.load.pools import OPTIONAL_POOLS, POOLS, REQUIRED_POOLS
from auricle.load.reports import PoolKind


class PoolProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The capacity of one worker.

    `costs` has, by unit, the share of a worker that one unit of work per second takes; at the
    knee the shares add up to 1. Units without a share of their own are absent.
    `response_seconds` is the 95th percentile of the response time at the knee, `start_seconds` the
    time from starting a worker until it is ready. `streams` are the live sessions with speech at
    the knee, by the seconds of their segments.
    """

    costs: dict[str, float]
    response_seconds: float
    start_seconds: float
    streams: dict[str, float] = {}

    def load(self, work: Mapping[str, float]) -> float:
        """Convert work per second, by unit, to workers at their knee."""
        return sum(cost * work.get(unit, 0.0) for unit, cost in self.costs.items())


class OtherProcesses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cores that other processes used on the measured machine, which has `cores` of them.

    `before` the workers started, and on average `during` the measurement: a worker's true capacity
    is larger by about as much.
    """

    cores: int
    before: float
    during: float


class CapacityProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The profiles of all pools, for one checkpoint on one kind of machine.

    `optional_pools` has the profiles of those that were measured, by kind; its key in the
    file is `beside`. `pd_per_encode_worker` is the number of PD workers that one encode worker
    feeds, by the seconds of segments, for manual sizing: the planner sizes each pool by its own
    load. `other_processes` is None if their load was not measured.
    """

    checkpoint: str
    machine: str
    date: str
    encode_worker: PoolProfile
    pd_worker: PoolProfile
    pd_per_encode_worker: dict[str, float] = {}
    optional_pools: dict[str, PoolProfile] = msgspec.field(default_factory=dict, name="beside")
    other_processes: OtherProcesses | None = None

    def has(self, kind: PoolKind) -> bool:
        """Return whether a pool was measured; required pools always were."""
        return not POOLS[kind].annotation or kind in self.optional_pools

    def pool(self, kind: PoolKind) -> PoolProfile:
        """Return the profile of a pool that was measured."""
        found: PoolProfile = (
            self.optional_pools[kind] if POOLS[kind].annotation else getattr(self, kind)
        )
        return found

    def write(self, path: Path) -> None:
        """Write the profile as indented JSON."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


def read_profile(path: Path | None) -> CapacityProfile:
    """Read and check a profile.

    Raises SettingsError if `path` is None, or the file is unreadable or invalid.
    """
    if path is None:
        raise SettingsError(
            "Planner.profile is not set: it must name a file with the capacities of a worker, "
            "which `auricle profile` writes"
        )
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=CapacityProfile)
    except OSError as error:
        raise SettingsError(f"cannot read Planner.profile {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise SettingsError(f"Planner.profile {path}: {error}") from None
    if unknown := sorted(set(profile.optional_pools) - {pool.kind for pool in OPTIONAL_POOLS}):
        raise SettingsError(
            f"Planner.profile {path}: unknown optional pool {unknown[0]!r}; "
            f"known: {', '.join(pool.kind for pool in OPTIONAL_POOLS)}"
        )
    for pool in (*REQUIRED_POOLS, *(one for one in OPTIONAL_POOLS if profile.has(one.kind))):
        _check(path, pool.kind, profile.pool(pool.kind), pool.units)
    return profile


def _check(path: Path, kind: str, pool: PoolProfile, units: tuple[str, ...]) -> None:
    if unknown := sorted(set(pool.costs) - set(units)):
        raise SettingsError(
            f"Planner.profile {path}: {kind} has no unit of work {unknown[0]!r}; "
            f"known: {', '.join(units)}"
        )
    values = (*pool.costs.values(), *pool.streams.values())
    values += (pool.response_seconds, pool.start_seconds)
    if not all(math.isfinite(v) and v >= 0 for v in values) or not any(pool.costs.values()):
        raise SettingsError(
            f"Planner.profile {path}: costs, streams and times of {kind} must be finite and not "
            "negative, and at least one cost must be positive"
        )
