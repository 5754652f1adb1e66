"""Calls to the Kubernetes API through kubernetes-asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auricle.errors import SettingsError, WorkerUnavailable

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CALL_SECONDS = 10.0
_GROUP, _VERSION = "nvidia.com", "v1beta1"
_PLURAL = "dynamographdeploymentscalingadapters"


class KubernetesApi:
    """A client of the API server, with this pod's service account."""

    def __init__(self, namespace: str) -> None:
        """An empty `namespace` means that of the pod. Raises SettingsError outside a pod."""
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
