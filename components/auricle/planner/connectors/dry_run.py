"""A connector that scales nothing: decisions are in the log and the metrics only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from auricle.load.reports import WorkerKind
from auricle.planner.connectors.base import COMPONENTS


class DryRunConnector:
    """Reports the observed replicas and ignores all decisions."""

    acts: ClassVar[bool] = False

    def __init__(self, ready: Callable[[WorkerKind], int]) -> None:
        """`ready` returns the number of a pool's workers that report."""
        self._ready = ready

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """Return the number of workers that report, by pool."""
        return {kind: self._ready(kind) for kind in COMPONENTS}

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
