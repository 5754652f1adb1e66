"""The status and the listening addresses of a graph's processes."""

from __future__ import annotations

import asyncio
from socket import SOCK_STREAM

import httpx
import psutil
import pytest

from auricle.client.stream import stream_file
from auricle.core.aio import cancelled
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually

pytestmark = pytest.mark.end_to_end


@pytest.mark.parametrize("component", ["Processor", "EncodeWorker", "PdWorker"])
@pytest.mark.parametrize("path", ["health", "live"])
def test_a_process_that_serves_says_that_it_is_well(
    server: Server, component: str, path: str
) -> None:
    """These are the paths for a container's probes."""
    port = server.system_ports[component]
    answer = httpx.get(f"http://127.0.0.1:{port}/{path}", timeout=ANSWER_SECONDS)
    assert answer.status_code == 200


def test_internal_ports_are_on_loopback(server: Server) -> None:
    """Processes that use file discovery are on one machine."""
    outside: dict[int, list[int]] = {}
    for process in server.processes():
        for connection in process.net_connections("inet"):
            listens = connection.status == psutil.CONN_LISTEN or connection.type != SOCK_STREAM
            if listens and connection.laddr.ip not in ("127.0.0.1", "::1"):
                outside.setdefault(process.pid, []).append(connection.laddr.port)
    # Except the publisher of load reports: Dynamo 1.6 binds it to every address.
    publishers = {server.component(n).pid for n in ("Processor", "EncodeWorker", "PdWorker")}
    assert outside.keys() <= publishers
    assert all(len(ports) == 1 for ports in outside.values()), outside


@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker"])
async def test_a_worker_reports_its_load(server: Server, component: str) -> None:
    """A report covers the time since the last one, so an idle worker reports zeros."""
    prefix = f"auricle_{'encode' if component == 'EncodeWorker' else 'pd'}_worker"

    def shown() -> bool:
        names = ("response_seconds_p95", "busy_share", "work_per_second", "draining")
        answered, busy, work, draining = server.metrics(
            component, *(f"{prefix}_{n}" for n in names)
        )
        assert busy <= 1
        assert draining == 0
        return answered > 0 and busy > 0 and work > 0

    speaking = asyncio.create_task(_speaks_on_and_on(server))
    try:
        await eventually(shown, seconds=60)
    finally:
        await cancelled([speaking])


async def test_a_sessions_calls_take_the_sockets_of_the_machine(server: Server) -> None:
    """A request on Dynamo's request plane costs several times as much."""
    components = ("Processor", "EncodeWorker", "PdWorker")
    names = ("auricle_internal_local_calls_total", "auricle_internal_local_connections")
    before = [server.metrics(component, *names)[0] for component in components]
    async for _ in stream_file(server.url, recordings.samples("hello"), live=False):
        pass
    for component, calls in zip(components, before, strict=True):
        after, connected = server.metrics(component, *names)
        assert after > calls, component
        assert connected >= 1, component


async def _speaks_on_and_on(server: Server) -> None:
    while True:
        async for _ in stream_file(server.url, recordings.samples("hello"), live=True):
            pass
