"""Pools of workers as discovery lists them: helpers for tests of admission and readiness."""

from __future__ import annotations

from auricle.core.errors import WorkerUnavailable
from auricle.frontend.link.served_pools import PATIENCE, ServedPools
from auricle.load.pools import POOLS


class FakeWorkerList:
    """The instances of one component; `silent` if discovery does not answer."""

    def __init__(self, *instances: int) -> None:
        self.instances = list(instances)
        self.silent = False

    async def listed(self) -> list[int]:
        if self.silent:
            raise WorkerUnavailable("discovery cannot be followed")
        return self.instances

    def known(self) -> list[int]:
        return self.instances


class Pools(ServedPools):
    """All pools of `kinds`, each with a worker, until a test takes workers away."""

    def __init__(self, *kinds: str, planners: int = 0) -> None:
        self.listings = {kind: FakeWorkerList(1) for kind in kinds or POOLS}
        self.planner = FakeWorkerList(*range(planners))
        super().__init__({POOLS[kind]: own for kind, own in self.listings.items()}, self.planner)

    async def empty(self, *kinds: str, looks: int = PATIENCE) -> None:
        """Take the workers of these pools away, and look `looks` times."""
        for kind in kinds:
            self.listings[kind].instances.clear()
        await self.looked(looks)

    async def looked(self, looks: int = 1) -> None:
        for _ in range(looks):
            await self.look()
