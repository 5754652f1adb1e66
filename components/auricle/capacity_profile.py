"""What one worker of each pool can do, as `auricle profile` measured it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.errors import SettingsError
from auricle.load_reports import ENCODE_WORK, PD_WORK, WorkerKind

UNITS: Mapping[WorkerKind, tuple[str, ...]] = {"encode_worker": ENCODE_WORK, "pd_worker": PD_WORK}


class PoolProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`costs` is how much of a worker one unit of work a second takes: the sum is 1 at the
    knee. There 95 of 100 requests are answered in `response_seconds`. `start_seconds` from
    order to ready.
    """

    costs: dict[str, float]
    response_seconds: float
    start_seconds: float

    def load(self, work: Mapping[str, float]) -> float:
        """Work a second, in workers at their knee."""
        return sum(cost * work.get(unit, 0.0) for unit, cost in self.costs.items())


class CapacityProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one checkpoint on one kind of machine."""

    checkpoint: str
    machine: str
    date: str
    encode_worker: PoolProfile
    pd_worker: PoolProfile

    def pool(self, kind: WorkerKind) -> PoolProfile:
        """Of one pool."""
        found: PoolProfile = getattr(self, kind)
        return found

    def write(self, path: Path) -> None:
        """As JSON that a person can read."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


def read_profile(path: Path | None) -> CapacityProfile:
    """Raises SettingsError saying what is wrong with the file, or how to make one."""
    if path is None:
        raise SettingsError(
            "Planner.profile is not set: it names the capacities of a worker; "
            "make the file with `auricle profile`"
        )
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=CapacityProfile)
    except OSError as error:
        raise SettingsError(f"cannot read Planner.profile {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise SettingsError(f"Planner.profile {path}: {error}") from None
    for kind, units in UNITS.items():
        _check(path, kind, profile.pool(kind), units)
    return profile


def _check(path: Path, kind: str, pool: PoolProfile, units: tuple[str, ...]) -> None:
    if unknown := sorted(set(pool.costs) - set(units)):
        raise SettingsError(
            f"Planner.profile {path}: {kind} has no unit of work {unknown[0]!r}; "
            f"known: {', '.join(units)}"
        )
    values = (*pool.costs.values(), pool.response_seconds, pool.start_seconds)
    if not all(math.isfinite(v) and v >= 0 for v in values) or not any(pool.costs.values()):
        raise SettingsError(
            f"Planner.profile {path}: costs and times of {kind} must be positive numbers"
        )
