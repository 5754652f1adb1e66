"""A connector that scales nothing: decisions are in the log and the metrics only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from auricle.load.pools import SizedPool
from auricle.load.reports import PoolKind


class DryRunConnector:
    """Reports the observed replicas and ignores all decisions."""

    acts: ClassVar[bool] = False

    def __init__(self, pools: Sequence[SizedPool], ready: Callable[[PoolKind], int]) -> None:
        """`ready` returns the number of a pool's workers that report."""
        self._pools = pools
        self._ready = ready

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return the number of workers that report, by pool."""
        return {pool.kind: self._ready(pool.kind) for pool in self._pools}

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
