"""One graph for all tests that disturb it, and the text of a recording without a disturbance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from auricle_testing.server import Server, free_port, serving
from auricle_testing.transcripts import heard
from tests.faults.components import whole
from tests.faults.sessions import spoken


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the full stop last: it ends the graph."""
    places = [n for n, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ours = sorted((items[n] for n in places), key=lambda item: item.path.stem == "test_full_stop")
    for place, item in zip(places, ours, strict=True):
        items[place] = item


@pytest.fixture(scope="package")
def disturbed() -> Iterator[Server]:
    options = (
        "--Common.load_report_seconds=0.5",
        # On a busy machine, the transcription of a recording takes tens of seconds, and so does a
        # start.
        "--Frontend.drain_seconds=120",
        "--Frontend.processor_deadline_seconds=120",
        "--Frontend.idle_timeout_seconds=300",
        "--Common.liveness_seconds=8",
    )
    with TemporaryDirectory(prefix="auricle-test-") as folder:
        environment = {"TMPDIR": folder}
        # The frontend that replaces another one must have the same address.
        options = (*options, f"--Frontend.port={free_port()}")
        with serving(*options, environment=environment) as running:
            yield running
        left = sorted(Path(folder).rglob("*"))
        assert not left, f"temporary files left behind: {left}"


@pytest.fixture
async def server(disturbed: Server) -> Server:
    """The graph, after it has recovered from the previous test."""
    await whole(disturbed)
    return disturbed


@pytest.fixture(scope="package")
def undisturbed(disturbed: Server) -> str:
    """The recording's text, from the undisturbed graph."""

    async def alone() -> str:
        await whole(disturbed)  # a test that needs no text may have come first
        return heard(await spoken(disturbed))

    # In a thread of its own: pytest's event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, alone()).result()
