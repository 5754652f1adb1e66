"""Calls to the Kubernetes API through kubernetes-asyncio."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from auricle.core.errors import SettingsError, WorkerUnavailable
from auricle.load.pools import POOLS, SizedPool
from auricle.load.reports import PoolKind
from auricle.planner.leadership import LEASE_SECONDS

log = logging.getLogger(__name__)

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CALL_SECONDS = 10.0
_GROUP, _VERSION = "nvidia.com", "v1beta1"
_PLURAL = "dynamographdeploymentscalingadapters"


class KubernetesApi:
    """A client of the API server, with this pod's service account."""

    def __init__(self, namespace: str) -> None:
        """Without `namespace` it is the pod's own. Raises SettingsError outside a pod."""
        self._in_pod = _OWN_NAMESPACE.exists()
        if not namespace:
            try:
                namespace = _OWN_NAMESPACE.read_text().strip()
            except OSError:
                raise SettingsError(
                    "Planner.kubernetes_namespace is empty and this process does not run in a "
                    "pod: set it to the namespace of the deployment"
                ) from None
        self.namespace = namespace
        self._client: Any = None

    async def client(self) -> Any:
        """Return the connected client; uses kubeconfig outside a pod."""
        from kubernetes_asyncio import client, config

        if self._client is None:
            if self._in_pod:
                config.load_incluster_config()
            else:
                await config.load_kube_config()
            self._client = client.ApiClient()
        return self._client

    async def replicas(self, adapter: str) -> int:
        """Return the replicas a scaling adapter requests.

        Raises WorkerUnavailable on an error or after 10 s.
        """
        from kubernetes_asyncio.client import CustomObjectsApi

        with unavailable(f"scaling adapter {adapter}"):
            scale = await CustomObjectsApi(await self.client()).get_namespaced_custom_object_scale(
                _GROUP, _VERSION, self.namespace, _PLURAL, adapter, _request_timeout=CALL_SECONDS
            )
            return int(scale["spec"].get("replicas", 0))

    async def scale(self, adapter: str, replicas: int) -> None:
        """Set the replicas a scaling adapter requests.

        Raises WorkerUnavailable on an error or after 10 s.
        """
        from kubernetes_asyncio.client import CustomObjectsApi

        with unavailable(f"scaling adapter {adapter}"):
            await CustomObjectsApi(await self.client()).patch_namespaced_custom_object_scale(
                _GROUP,
                _VERSION,
                self.namespace,
                _PLURAL,
                adapter,
                # It replaces, too; with 0 replicas a scale has no such field to replace.
                [{"op": "add", "path": "/spec/replicas", "value": replicas}],
                _request_timeout=CALL_SECONDS,
            )

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Raise errors of a call as WorkerUnavailable, prefixed by `what`."""
    from aiohttp import ClientError
    from kubernetes_asyncio.client.exceptions import ApiException

    try:
        yield
    except ApiException as error:
        raise WorkerUnavailable(f"{what}: {error.status} {error.reason}") from None
    except (ClientError, TimeoutError, OSError) as error:
        raise WorkerUnavailable(f"{what}: {error!r}") from None


# A connector to the scaling adapters of a DynamoGraphDeployment.


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

        An optional pool whose adapter cannot be read keeps its size, and the others are still
        sized. Raises WorkerUnavailable.
        """
        found: dict[PoolKind, int] = {}
        for pool in self._pools:
            try:
                found[pool.kind] = await self._api.replicas(self._adapter(pool.kind))
            except WorkerUnavailable as error:
                if not pool.annotation:
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


# The lease on Kubernetes: a Lease object of the coordination API.


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
