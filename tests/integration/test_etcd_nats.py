"""The same binaries with etcd for discovery and NATS for events."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import jiwer
import pytest

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import free_port, serving

pytestmark = pytest.mark.end_to_end
BIN = Path(sys.executable).parent


@contextlib.contextmanager
def running(*command: str, health: str) -> Iterator[None]:
    """A server process, up when `health` answers, gone at the end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(health, timeout=1.0).status_code == 200:
                    break
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command[0]} did not come up"
            time.sleep(0.1)  # polling another process
        yield
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    url, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = [
        *("--data-dir", str(tmp_path / "etcd"), "--listen-client-urls", url),
        *("--advertise-client-urls", url, "--listen-peer-urls", peer),
        *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
    ]
    with running(str(BIN / "etcd"), *arguments, health=f"{url}/health"):
        yield url


@pytest.fixture
def nats() -> Iterator[str]:
    port, monitor = free_port(), free_port()
    arguments = ["-a", "127.0.0.1", "-p", str(port), "-m", str(monitor)]
    health = f"http://127.0.0.1:{monitor}/healthz"
    with running(str(BIN / "nats-server"), *arguments, health=health):
        yield f"nats://127.0.0.1:{port}"


async def test_the_graph_runs_on_etcd_and_nats(etcd: str, nats: str) -> None:
    overrides = [
        "--Common.discovery=etcd",
        f"--Common.etcd_endpoints={etcd}",
        "--Common.event_plane=nats",
        f"--Common.nats_server={nats}",
    ]
    with serving(*overrides) as server:
        samples = recordings.samples("hello")
        events = [e async for e in stream_file(server.url, samples, live=False)]
        assert jiwer.wer(recordings.words("hello"), events[-1]["text"]) <= 0.34
        assert _records(etcd)
    assert not _records(etcd), "instances stayed registered"


def _records(etcd: str) -> list[str]:
    """Keys of served instances."""
    command = [str(BIN / "etcdctl"), "--endpoints", etcd, "get", "--prefix", "v1/instances"]
    listed = subprocess.run(
        [*command, "--keys-only"], check=True, capture_output=True, text=True, timeout=10
    )
    return listed.stdout.split()
