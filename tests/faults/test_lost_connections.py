"""A pool loses all connections at once while its workers stay healthy: a delay, no lost words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.call_sockets import Sockets
from auricle_testing.discovery_records import Records
from auricle_testing.faulty_proxy import Proxy, UnixProxy
from auricle_testing.server import READY_SECONDS, Server, eventually
from auricle_testing.transcripts import heard
from tests.faults.components import whole
from tests.faults.sessions import check_words, replaced, spoken, until

pytestmark = pytest.mark.end_to_end
Way = Callable[[Server, str], AbstractAsyncContextManager[Proxy | UnixProxy]]


@pytest.fixture
async def server(disturbed: Server, undisturbed: str) -> Server:
    """The graph with a processor that has made no calls yet, so that all calls use the proxies."""
    assert undisturbed
    await whole(disturbed)
    caller = disturbed.component("Processor")
    caller.kill()
    await eventually(lambda: replaced(disturbed, "Processor", caller.pid), READY_SECONDS)
    await whole(disturbed)
    return disturbed


@asynccontextmanager
async def over_the_request_plane(server: Server, component: str) -> AsyncIterator[Proxy]:
    """Route calls over the request plane, as between machines, through a proxy."""
    records = Records(server.discovery)
    # Discovery lists a worker that another test has killed for some more seconds.
    await eventually(lambda: len(records.addresses(component)) == 1, seconds=60)
    ((instance, (host, port)),) = records.addresses(component).items()
    proxy = Proxy(host, port)
    async with Sockets(server.discovery).taken(), proxy.listening() as own:
        records.move(component, instance, own)
        try:
            yield proxy
        finally:
            records.move(component, instance, port)


@asynccontextmanager
async def over_its_socket(server: Server, component: str) -> AsyncIterator[UnixProxy]:
    sockets, records = Sockets(server.discovery), Records(server.discovery)
    async with sockets.taken():
        await sockets.show()
        (instance,) = records.addresses(component)
        proxy = sockets.proxy(instance)
        assert proxy is not None
        yield proxy


async def used(server: Server, proxy: Proxy | UnixProxy) -> None:
    """Send recordings until a call uses the proxy: callers may see a new address late."""
    async with asyncio.timeout(READY_SECONDS):
        while not proxy.bytes_passed:
            async for _ in stream_file(server.url, recordings.samples("hello"), live=False):
                pass


@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker"])
@pytest.mark.parametrize("way", [over_the_request_plane, over_its_socket])
async def test_a_session_goes_on_at_the_only_worker_once_it_answers(
    server: Server, undisturbed: str, component: str, way: Way
) -> None:
    logged = len(server.log)
    async with way(server, component) as proxy:
        await used(server, proxy)
        passed, at_half = proxy.bytes_passed, asyncio.Event()
        session = asyncio.create_task(spoken(server, at_half, share=0.5))
        await until(at_half, session)
        assert proxy.bytes_passed > passed
        made = proxy.connections_made
        proxy.cut()
        check_words(undisturbed, heard(await session))
        assert proxy.connections_made > made
    # The caller notices a lost socket before its next call, which may be the first to reconnect.
    if way is over_the_request_plane:
        assert "answers a probe again" in "\n".join(server.log[logged:])
