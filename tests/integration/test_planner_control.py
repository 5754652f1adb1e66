"""The planner's control planes: a real etcd lease, and Kubernetes with a fake API server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from auricle.core.errors import SettingsError, WorkerUnavailable
from auricle.load.pools import POOLS, REQUIRED_POOLS
from auricle.planner.kubernetes import KubernetesApi, KubernetesConnector, KubernetesLease
from auricle.planner.leadership import EtcdLease, Leadership
from auricle_testing.services import etcd_server

pytestmark = pytest.mark.integration


@pytest.fixture
def etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("auricle.planner.leadership._CALL_SECONDS", 30)
    with etcd_server(tmp_path) as server:
        yield server.url


async def test_of_two_planners_on_etcd_one_leads_until_it_ends(etcd: str) -> None:
    first, second = (Leadership(EtcdLease(etcd, "test")) for _ in range(2))
    await first.renew()
    await second.renew()
    await first.renew()
    assert (first.held, second.held) == (True, False)
    await first.release()
    await second.renew()
    assert (first.held, second.held) == (False, True)
    await second.release()


async def test_planners_of_two_deployments_do_not_wait_for_each_other(etcd: str) -> None:
    first, second = Leadership(EtcdLease(etcd, "one")), Leadership(EtcdLease(etcd, "two"))
    await first.renew()
    await second.renew()
    assert first.held and second.held
    await first.release()
    await second.release()


async def test_an_etcd_that_is_not_there_is_said_so() -> None:
    with pytest.raises(WorkerUnavailable, match=r"etcd at 127\.0\.0\.1:1"):
        await EtcdLease("http://127.0.0.1:1", "test").renewed()
    with pytest.raises(SettingsError, match="no host"):
        EtcdLease("", "test")


# ── Kubernetes ──────────────────────────────────────────────────────────────


class ApiServer:
    """Scale subresources and leases of one namespace, as the real API serves them."""

    def __init__(self) -> None:
        self.replicas = {"auricle-encodeworker": 2, "auricle-pdworker": 5}
        self.leases: dict[str, dict[str, Any]] = {}
        self.down = False
        adapters = (
            "/apis/nvidia.com/v1beta1/namespaces/speech/"
            "dynamographdeploymentscalingadapters/{name}/scale"
        )
        leases = "/apis/coordination.k8s.io/v1/namespaces/speech/leases"
        self.app = Starlette(
            routes=[
                Route(adapters, self._scale, methods=["GET", "PATCH"]),
                Route(leases, self._create, methods=["POST"]),
                Route(f"{leases}/{{name}}", self._lease, methods=["GET", "PUT"]),
            ]
        )

    async def _scale(self, request: Request) -> Response:
        name = request.path_params["name"]
        if self.down or name not in self.replicas:
            return _status(500 if self.down else 404)
        if request.method == "PATCH":
            # Like the real API, check that the body has the type that the header declares.
            assert request.headers["content-type"] == "application/json-patch+json"
            (change,) = await request.json()
            assert change["path"] == "/spec/replicas"
            if change["op"] == "replace" and not self.replicas[name]:
                return _status(422)  # a scale without replicas has no such field
            assert change["op"] in ("add", "replace")
            self.replicas[name] = change["value"]
        spec = {"replicas": self.replicas[name]} if self.replicas[name] else {}
        return JSONResponse({"spec": spec, "status": {}})

    async def _create(self, request: Request) -> Response:
        lease = await request.json()
        self.leases[lease["metadata"]["name"]] = lease
        return JSONResponse(lease)

    async def _lease(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "PUT":
            self.leases[name] = await request.json()
        return JSONResponse(self.leases[name]) if name in self.leases else _status(404)


def _status(code: int) -> Response:
    return JSONResponse({"kind": "Status", "code": code, "reason": "no"}, status_code=code)


@pytest.fixture
async def api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[ApiServer, KubernetesApi]]:
    fake = ApiServer()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(fake.app, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": f"http://127.0.0.1:{listener.getsockname()[1]}"},
            }
        ],
        "users": [{"name": "test", "user": {"token": "t"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setattr(
        "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file)
    )
    real = KubernetesApi("speech")
    yield fake, real
    await real.close()
    server.should_exit = True
    await serving


async def test_pools_are_read_and_scaled_through_their_adapters(
    api: tuple[ApiServer, KubernetesApi],
) -> None:
    fake, real = api
    fake.replicas |= {"auricle-alignworker": 0}
    connector = KubernetesConnector(real, "auricle", [*REQUIRED_POOLS, POOLS["align_worker"]])
    counts = await connector.replicas()
    assert counts == {"encode_worker": 2, "pd_worker": 5, "align_worker": 0}
    await connector.scale("pd_worker", 8)
    await connector.scale("align_worker", 1)
    assert fake.replicas == {
        "auricle-encodeworker": 2,
        "auricle-pdworker": 8,
        "auricle-alignworker": 1,
    }


async def test_an_adapter_that_is_missing_or_a_server_that_fails_is_named(
    api: tuple[ApiServer, KubernetesApi],
) -> None:
    fake, real = api
    with pytest.raises(WorkerUnavailable, match="scaling adapter other-encodeworker: 404"):
        await KubernetesConnector(real, "other", REQUIRED_POOLS).replicas()
    fake.down = True
    with pytest.raises(WorkerUnavailable, match="auricle-encodeworker: 500"):
        await KubernetesConnector(real, "auricle", REQUIRED_POOLS).replicas()


async def test_of_two_planners_on_kubernetes_one_leads(
    api: tuple[ApiServer, KubernetesApi],
) -> None:
    fake, real = api
    first, second = (Leadership(KubernetesLease(real, "auricle")) for _ in range(2))
    await first.renew()
    await second.renew()
    await first.renew()
    assert (first.held, second.held) == (True, False)
    assert list(fake.leases) == ["auricle-planner"]


async def test_outside_a_pod_a_namespace_has_to_be_said() -> None:
    with (
        contextlib.suppress(FileNotFoundError),
        pytest.raises(SettingsError, match="does not run in a pod"),
    ):
        KubernetesApi("")
