"""The interface between the planner and what runs the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from auricle.load.reports import PoolKind


class Connector(Protocol):
    """Reads and sets the replicas of the pools. Each call has a deadline of its own.

    `acts` says whether `scale` does anything.
    """

    acts: ClassVar[bool]

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return each pool's replicas: starting ones count, draining ones do not.

        A pool beside the path is left out if there is none. Raises WorkerUnavailable.
        """
        ...

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Request so many replicas, without waiting until they have started or drained.

        Raises WorkerUnavailable.
        """
        ...

    async def close(self) -> None:
        """Release connections; no call may follow."""
        ...
