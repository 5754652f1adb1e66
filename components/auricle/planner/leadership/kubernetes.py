"""The lease on Kubernetes: a Lease object of the coordination API."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any

from auricle.planner.kubernetes_api import CALL_SECONDS, KubernetesApi, unavailable
from auricle.planner.leadership.base import LEASE_SECONDS


class KubernetesLease:
    """Uses the leader election of kubernetes-asyncio, one renewal at a time."""

    def __init__(self, api: KubernetesApi, deployment: str) -> None:
        self._api = api
        self._name = f"{deployment}-planner"
        self._identity = f"{os.environ.get('HOSTNAME', 'planner')}-{uuid.uuid4().hex[:8]}"
        self._election: Any = None
        self._lock: Any = None

    async def renewed(self) -> bool:
        """Acquire or renew the lease. Raises WorkerUnavailable on an error or after 10 s."""
        with unavailable("the lease"):
            async with asyncio.timeout(CALL_SECONDS):
                election = await self._elected()
                return bool(await election.try_acquire_or_renew())

    async def release(self) -> None:
        """Close the connection and let the lease expire: the library cannot give it up."""
        await self._api.close()

    async def _elected(self) -> Any:
        from kubernetes_asyncio.leaderelection.electionconfig import Config
        from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
        from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

        async def nothing() -> None:
            return None

        if self._election is None:
            self._lock = LeaseLock(
                self._name, self._api.namespace, self._identity, await self._api.client()
            )
            self._election = LeaderElection(
                Config(
                    self._lock,
                    lease_duration=LEASE_SECONDS,
                    renew_deadline=LEASE_SECONDS - 3,
                    retry_period=4,
                    onstarted_leading=nothing,
                    onstopped_leading=None,
                )
            )
        return self._election
