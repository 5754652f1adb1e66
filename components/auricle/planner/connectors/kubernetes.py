"""A connector to the scaling adapters of a DynamoGraphDeployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from auricle.load.reports import WorkerKind
from auricle.planner.connectors.base import COMPONENTS
from auricle.planner.kubernetes_api import KubernetesApi


class KubernetesConnector:
    """Scales pools through the scale subresource of their adapters, as an HPA would.

    The operator creates an adapter `<deployment>-<component in lower case>` for each component
    with `scalingAdapter`.
    """

    acts: ClassVar[bool] = True

    def __init__(self, api: KubernetesApi, deployment: str) -> None:
        self._api = api
        self._deployment = deployment

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """Return the replicas that each adapter requests. Raises WorkerUnavailable."""
        return {kind: await self._api.replicas(self._adapter(kind)) for kind in COMPONENTS}

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """Set the replicas that an adapter requests. Raises WorkerUnavailable."""
        await self._api.scale(self._adapter(pool), replicas)

    async def close(self) -> None:
        """Close the connection to the API server."""
        await self._api.close()

    def _adapter(self, kind: WorkerKind) -> str:
        return f"{self._deployment}-{COMPONENTS[kind].lower()}"
