"""The same binaries with etcd for discovery and NATS for events."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import jiwer
import pytest

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import Server, eventually, free_port, serving
from tests.services import BIN, etcd_server, nats_server

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    with etcd_server(tmp_path) as url:
        yield url


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[str]:
    with nats_server(tmp_path) as url:
        yield url


async def test_the_graph_runs_on_etcd_and_nats(etcd: str, nats: str, tmp_path: Path) -> None:
    secret = tmp_path / "secrets"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    overrides = [
        f"--Common.secret_file={secret}",
        "--Common.discovery=etcd",
        f"--Common.etcd_endpoints={etcd}",
        "--Common.event_plane=nats",
        f"--Common.nats_server={nats}",
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
        assert _records(etcd)
        # Load reports come by NATS, and the lease that makes one planner act is kept in etcd.
        for pool in ("encode_worker", "pd_worker"):
            await eventually(lambda pool=pool: _ready(server, pool) == 1, seconds=20)
        assert server.metric("Planner", "auricle_planner_leader") == 1
        health = await asyncio.to_thread(httpx.get, f"http://127.0.0.1:{port}/health")
        assert health.status_code == 200
    assert not _records(etcd), "instances stayed registered"


def _ready(server: Server, pool: str) -> float:
    return server.metric("Planner", "auricle_planner_replicas_ready", pool=pool)


def _records(etcd: str) -> list[str]:
    """Keys of served instances."""
    command = [str(BIN / "etcdctl"), "--endpoints", etcd, "get", "--prefix", "v1/instances"]
    listed = subprocess.run(
        [*command, "--keys-only"], check=True, capture_output=True, text=True, timeout=10
    )
    return listed.stdout.split()
