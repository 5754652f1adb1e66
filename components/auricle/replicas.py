"""The bounds on numbers of replicas, for settings, the launcher and manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Per component: processes of one launcher, and initial replicas of a rendered deployment.
MAX_REPLICAS = 64
# A leader and a standby.
MAX_PLANNERS = 2
# Per pool that a planner, an HPA or KEDA scales on a cluster.
MAX_POOL_REPLICAS = 10_000


class PoolLimits(BaseModel):
    """The bounds on the replicas of one pool that a planner sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: int = Field(1, ge=1, le=MAX_POOL_REPLICAS, description="fewest workers of the pool")
    maximum: int = Field(8, ge=1, le=MAX_POOL_REPLICAS, description="most workers of the pool")
    gpus: float = Field(1.0, gt=0, description="GPUs per replica, counted against gpu_budget")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is more than maximum {self.maximum}")
        return self

    def on_one_machine(self, cores: int) -> Self:
        """Return the limits with at most a worker per core, but never less than the minimum.

        A worker keeps a core busy, whatever else it has.
        """
        return self.model_copy(update={"maximum": min(self.maximum, max(self.minimum, cores))})


class BesideLimits(PoolLimits):
    """The bounds of a pool beside the path, which is empty while nobody asks for it."""

    minimum: int = Field(0, ge=0, le=MAX_POOL_REPLICAS, description="fewest workers of the pool")


def within_one_launcher(pools: Mapping[str, PoolLimits]) -> None:
    """Raise ValueError if a planner could request more replicas than a launcher starts."""
    for pool, limits in pools.items():
        if limits.maximum > MAX_REPLICAS:
            raise ValueError(
                f"{pool}.maximum is {limits.maximum}; with connector 'local' at most "
                f"{MAX_REPLICAS}, the processes of a component on one machine"
            )
