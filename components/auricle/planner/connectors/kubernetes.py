"""Replicas of a DynamoGraphDeployment, through its scaling adapters."""

from __future__ import annotations

from collections.abc import Mapping

from auricle.load_reports import WorkerKind
from auricle.planner.connectors.base import COMPONENTS
from auricle.planner.kubernetes_api import KubernetesApi


class KubernetesConnector:
    """The operator makes `<deployment>-<component, lowercased>` for each component that has
    `scalingAdapter`; its scale subresource is what an HPA would use too."""

    def __init__(self, api: KubernetesApi, deployment: str) -> None:
        self._api = api
        self._deployment = deployment

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """Raises WorkerUnavailable."""
        return {kind: await self._api.replicas(self._adapter(kind)) for kind in COMPONENTS}

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """Raises WorkerUnavailable."""
        await self._api.scale(self._adapter(pool), replicas)

    async def close(self) -> None:
        """No more calls."""
        await self._api.close()

    def _adapter(self, kind: WorkerKind) -> str:
        return f"{self._deployment}-{COMPONENTS[kind].lower()}"
