"""What the processes of a graph say of themselves, and where they listen."""

from __future__ import annotations

from socket import SOCK_STREAM

import httpx
import psutil
import pytest

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import Server, eventually

pytestmark = pytest.mark.end_to_end


@pytest.mark.parametrize("component", ["Processor", "EncodeWorker", "PdWorker"])
@pytest.mark.parametrize("path", ["health", "live"])
def test_a_process_that_serves_says_that_it_is_well(
    server: Server, component: str, path: str
) -> None:
    """What probes of a container ask."""
    port = server.system_ports[component]
    assert httpx.get(f"http://127.0.0.1:{port}/{path}").status_code == 200


def test_internal_ports_are_on_loopback(server: Server) -> None:
    """Where processes find each other in a directory they are on one machine."""
    outside: dict[int, list[int]] = {}
    for process in server.processes():
        for connection in process.net_connections("inet"):
            listens = connection.status == psutil.CONN_LISTEN or connection.type != SOCK_STREAM
            if listens and connection.laddr.ip not in ("127.0.0.1", "::1"):
                outside.setdefault(process.pid, []).append(connection.laddr.port)
    # But for the publisher of load reports: Dynamo 1.6 binds it to every address.
    publishers = {server.component(n).pid for n in ("Processor", "EncodeWorker", "PdWorker")}
    assert outside.keys() <= publishers
    assert all(len(ports) == 1 for ports in outside.values()), outside


@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker"])
async def test_a_worker_reports_its_load(server: Server, component: str) -> None:
    prefix = f"auricle_{'encode' if component == 'EncodeWorker' else 'pd'}_worker"
    await _transcribed(server)
    await eventually(
        lambda: server.metric(component, f"{prefix}_response_seconds_p95") > 0, seconds=10
    )
    assert 0 < server.metric(component, f"{prefix}_busy_share") <= 1
    assert server.metric(component, f"{prefix}_work_per_second") > 0
    assert server.metric(component, f"{prefix}_draining") == 0


async def _transcribed(server: Server) -> None:
    async for _ in stream_file(server.url, recordings.samples("hello"), live=True):
        pass
