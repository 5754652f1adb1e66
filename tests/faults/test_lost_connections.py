"""All connections to a pool are lost at once, though its workers are well: a moment, no words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from benchmarks.faults.proxy import Proxy
from benchmarks.faults.records import Records
from tests.faults.sessions import check_words, heard, spoken, until
from tests.server import Server, eventually, serving

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A graph whose processes call each other as they do between machines: by a proxy, too."""
    with serving("--Common.load_report_seconds=0.5", "--Common.local_calls=false") as running:
        yield running


@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker"])
async def test_a_session_goes_on_at_the_only_worker_once_it_answers(
    server: Server, undisturbed: str, component: str
) -> None:
    logged, records = len(server.log), Records(server.discovery)
    # A worker that another test has killed is listed for some seconds more.
    await eventually(lambda: len(records.addresses(component)) == 1, seconds=60)
    ((instance, (host, port)),) = records.addresses(component).items()
    proxy = Proxy(host, port)
    async with proxy.listening() as own:
        records.move(component, instance, own)
        try:
            at_half = asyncio.Event()
            session = asyncio.create_task(spoken(server, at_half, share=0.5))
            await until(at_half, session)
            assert proxy.bytes_passed > 0
            proxy.cut()
            check_words(undisturbed, heard(await session))
        finally:
            records.move(component, instance, port)
    assert "answers: it is called again" in "\n".join(server.log[logged:])
