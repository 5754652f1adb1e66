"""The same binaries with etcd for discovery and NATS for events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jiwer
import pytest

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.launcher import Launcher
from auricle_testing.server import (
    ANSWER_SECONDS,
    LIGHT_ENGINE,
    READY_SECONDS,
    Server,
    eventually,
    free_port,
    serving,
)
from auricle_testing.services import Etcd, etcd_server, nats_server

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
RECORDS = "v1/instances"  # records of served endpoints


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with etcd_server(tmp_path) as server:
        yield server


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[str]:
    with nats_server(tmp_path) as url:
        yield url


async def test_the_graph_runs_on_etcd_and_nats(etcd: Etcd, nats: str, tmp_path: Path) -> None:
    secret = tmp_path / "secrets"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    overrides = [
        f"--Common.secret_file={secret}",
        "--Common.discovery=etcd",
        f"--Common.etcd_endpoints={etcd.url}",
        "--Common.event_plane=nats",
        f"--Common.nats_server={nats}",
        *LIGHT_ENGINE,
    ]
    port = free_port()
    overrides += [
        "--Planner.replicas=1",
        "--Planner.connector=dry-run",
        "--Planner.profile=configs/profiles/h100-0.6b.assumed.json",
        "--Planner.step_seconds=1",
        f"--Planner.system_port={port}",
    ]
    with serving(*overrides) as server:
        server.system_ports["Planner"] = port
        samples = recordings.samples("hello")
        events = [e async for e in stream_file(server.url, samples, live=False)]
        assert jiwer.wer(recordings.words("hello"), events[-1]["text"]) <= 0.34
        assert etcd.keys(RECORDS)
        # Load reports use NATS, and etcd keeps the lease that selects the active planner.
        for pool in ("encode_worker", "pd_worker"):
            await eventually(lambda pool=pool: _ready(server, pool) == 1, seconds=60)
        leader = "auricle_planner_leader"
        await eventually(lambda: server.metric("Planner", leader) == 1, seconds=60)
        health = await asyncio.to_thread(
            httpx.get, f"http://127.0.0.1:{port}/health", timeout=ANSWER_SECONDS
        )
        assert health.status_code == 200
    assert not etcd.keys(RECORDS), "instances stayed registered"


def _ready(server: Server, pool: str) -> float:
    return server.metric("Planner", "auricle_planner_replicas_ready", pool=pool)


async def test_a_minute_without_etcd_costs_a_session_nothing(etcd: Etcd, tmp_path: Path) -> None:
    secret = tmp_path / "secrets"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    overrides = [
        f"--Common.secret_file={secret}",
        "--Common.discovery=etcd",
        f"--Common.etcd_endpoints={etcd.url}",
        *LIGHT_ENGINE,
    ]
    samples = recordings.samples("hello")
    with serving(*overrides) as server:
        records, processes = etcd.keys(RECORDS), {p.pid for p in server.processes()}
        etcd.stop()
        away = asyncio.create_task(asyncio.sleep(60))
        while not away.done():
            events = [e async for e in stream_file(server.url, samples, live=True)]
            assert events[-1]["type"] == "done"
            await asyncio.wait([away], timeout=5)
        etcd.start()
        assert etcd.keys(RECORDS) == records
        # Discovery finds new processes and earlier ones.
        Launcher(server).scale("Processor", 2)
        await eventually(lambda: Launcher(server).settled("Processor", 2), READY_SECONDS)
        await eventually(lambda: _health(server)["processors"] == 2, seconds=60)
        events = [e async for e in stream_file(server.url, samples, live=False)]
        assert jiwer.wer(recordings.words("hello"), events[-1]["text"]) <= 0.34
        assert processes <= {p.pid for p in server.processes()}


def _health(server: Server) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/health", timeout=ANSWER_SECONDS).json()
    return answer
