"""Requests for replicas: every interface has a bound, which its error message states."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from auricle.config.common import MAX_PLANNERS, MAX_POOL_REPLICAS, MAX_REPLICAS
from auricle.core.errors import SettingsError, WorkerUnavailable
from auricle.launcher.config import load_config, settings_for
from auricle.launcher.control import SOCKET_VARIABLE, ControlServer
from auricle.load.pools import REQUIRED_POOLS
from auricle.planner.connectors import LocalConnector

pytestmark = pytest.mark.unit
BILLION = 10**9


class Pools:
    """A supervisor for its control server."""

    def __init__(self) -> None:
        self.wanted = {"EncodeWorker": 1, "PdWorker": 1}

    def counts(self) -> dict[str, dict[str, int]]:
        return {name: {"replicas": count, "ready": 1} for name, count in self.wanted.items()}

    def scale(self, component: str, replicas: int) -> None:
        self.wanted[component] = replicas


@pytest.fixture
def pools() -> Pools:
    return Pools()


@pytest.fixture
async def launcher(
    pools: Pools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    socket = tmp_path / "launcher.sock"
    monkeypatch.setenv(SOCKET_VARIABLE, str(socket))
    server = ControlServer(pools, socket)
    serving = asyncio.create_task(server.run())
    try:
        await asyncio.wait_for(server.accepting.wait(), 60)
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://launcher") as client:
            yield client
    finally:
        server.close()
        await serving


@pytest.mark.parametrize("asked", [BILLION, MAX_REPLICAS + 1, -1, True, 2.5, "3", None])
async def test_the_launcher_refuses_what_is_not_a_number_of_replicas_within_its_bound(
    launcher: httpx.AsyncClient, pools: Pools, asked: object
) -> None:
    answer = await launcher.put("/components/PdWorker/replicas", json={"replicas": asked})
    assert answer.status_code == 400
    assert f"a number from 0 to {MAX_REPLICAS}" in answer.json()["error"]
    assert pools.wanted["PdWorker"] == 1


async def test_the_launcher_refuses_nested_json(launcher: httpx.AsyncClient, pools: Pools) -> None:
    answer = await launcher.put("/components/PdWorker/replicas", content=b"[" * 30_000)
    assert answer.status_code == 400
    assert "the body must be" in answer.json()["error"]
    assert pools.wanted["PdWorker"] == 1


async def test_only_its_user_can_connect_to_the_launcher(launcher: httpx.AsyncClient) -> None:
    assert (await launcher.get("/components")).status_code == 200
    assert os.stat(os.environ[SOCKET_VARIABLE]).st_mode & 0o777 == 0o600  # noqa: PTH116


async def test_the_launcher_starts_as_many_as_its_bound(
    launcher: httpx.AsyncClient, pools: Pools
) -> None:
    path = "/components/PdWorker/replicas"
    answer = await launcher.put(path, json={"replicas": MAX_REPLICAS})
    assert answer.status_code == 200
    assert pools.wanted["PdWorker"] == MAX_REPLICAS


async def test_a_planner_is_told_the_bound_that_it_passed(launcher: httpx.AsyncClient) -> None:
    connector = LocalConnector(REQUIRED_POOLS)
    try:
        with pytest.raises(WorkerUnavailable, match=f"from 0 to {MAX_REPLICAS}"):
            await connector.scale("pd_worker", BILLION)
    finally:
        await connector.close()


@pytest.mark.parametrize(
    ("component", "override", "said"),
    [
        *(
            (name, f"--{name}.replicas={BILLION}", rf"{name}\.replicas is {BILLION}.*{most}$")
            for name, most in [
                ("Frontend", MAX_REPLICAS),
                ("Processor", MAX_REPLICAS),
                ("EncodeWorker", MAX_REPLICAS),
                ("PdWorker", MAX_REPLICAS),
                ("Planner", MAX_PLANNERS),
            ]
        ),
        (
            "Planner",
            f"--Planner.pd={{maximum: {BILLION}}}",
            rf"Planner\.pd\.maximum is {BILLION}.*{MAX_POOL_REPLICAS}",
        ),
        (
            "Planner",
            f"--Planner.encode={{minimum: {BILLION}}}",
            rf"Planner\.encode\.minimum is {BILLION}.*{MAX_POOL_REPLICAS}",
        ),
        (
            "Planner",
            "--Planner.pd={minimum: 9, maximum: 3}",
            r"Planner\.pd: minimum 9 is more than maximum 3",
        ),
    ],
)
def test_settings_refuse_more_and_say_how_many_there_may_be(
    component: str, override: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_for(component, load_config(None, [override]), "the command line")


def test_a_planner_on_one_machine_may_not_be_allowed_more_than_the_launcher_starts() -> None:
    pools = f"--Planner.pd={{maximum: {MAX_REPLICAS + 1}}}"
    said = rf"Planner: pd\.maximum is {MAX_REPLICAS + 1}; .*at most {MAX_REPLICAS}"
    with pytest.raises(SettingsError, match=said):
        settings_for("Planner", load_config(None, [pools, "--Planner.replicas=1"]), "here")
    on_a_cluster = [pools, "--Planner.replicas=1", "--Planner.connector=kubernetes"]
    settings = settings_for("Planner", load_config(None, on_a_cluster), "here")
    assert settings.pd.maximum == MAX_REPLICAS + 1
