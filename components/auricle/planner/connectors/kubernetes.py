"""A connector to the scaling adapters of a DynamoGraphDeployment."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar

from auricle.errors import WorkerUnavailable
from auricle.load.pools import POOLS, SizedPool
from auricle.load.reports import PoolKind
from auricle.planner.kubernetes_api import KubernetesApi

log = logging.getLogger(__name__)


class KubernetesConnector:
    """Scales pools through the scale subresource of their adapters, as an HPA would.

    The operator creates an adapter `<deployment>-<component in lower case>` for each component
    with `scalingAdapter`.
    """

    acts: ClassVar[bool] = True

    def __init__(self, api: KubernetesApi, deployment: str, pools: Sequence[SizedPool]) -> None:
        self._api = api
        self._pools = pools
        self._deployment = deployment

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return the replicas that each adapter requests.

        A pool beside the path whose adapter cannot be read keeps its size, and does not keep the
        others from being sized. Raises WorkerUnavailable.
        """
        found: dict[PoolKind, int] = {}
        for pool in self._pools:
            try:
                found[pool.kind] = await self._api.replicas(self._adapter(pool.kind))
            except WorkerUnavailable as error:
                if not pool.asked:
                    raise
                log.warning("%s is not sized: %s", pool.component, error)
        return found

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Set the replicas that an adapter requests. Raises WorkerUnavailable."""
        await self._api.scale(self._adapter(pool), replicas)

    async def close(self) -> None:
        """Close the connection to the API server."""
        await self._api.close()

    def _adapter(self, kind: PoolKind) -> str:
        return f"{self._deployment}-{POOLS[kind].component.lower()}"
