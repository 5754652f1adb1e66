"""Decisions without consequences: what would be done is in the log and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from auricle.load_reports import WorkerKind
from auricle.planner.connectors.base import COMPONENTS


class DryRunConnector:
    """The pools have what is seen of them, whatever was decided."""

    def __init__(self, ready: Callable[[WorkerKind], int]) -> None:
        """`ready` is how many workers of a pool report."""
        self._ready = ready

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """Those that report."""
        return {kind: self._ready(kind) for kind in COMPONENTS}

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""
