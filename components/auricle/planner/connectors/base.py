"""What the planner needs of whoever runs the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from auricle.load_reports import WorkerKind

COMPONENTS: Mapping[WorkerKind, str] = {"encode_worker": "EncodeWorker", "pd_worker": "PdWorker"}


class Connector(Protocol):
    """Replicas of the pools, read and set."""

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """How many each pool is to have now (starting ones count, leaving ones do not)."""
        ...

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """Have so many; does not wait until they are there or gone."""
        ...

    async def close(self) -> None:
        """No more calls."""
        ...
