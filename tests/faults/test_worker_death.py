"""A worker killed in the middle of a session costs time, not words."""

from __future__ import annotations

import asyncio

import pytest

from auricle_testing.server import Server, eventually
from auricle_testing.transcripts import heard
from tests.faults.sessions import check_words, replaced, spoken, until

pytestmark = pytest.mark.end_to_end


@pytest.mark.parametrize("component", ["EncodeWorker", "Processor", "PdWorker"])
async def test_a_session_outlives_the_worker(
    server: Server, undisturbed: str, component: str
) -> None:
    at_half = asyncio.Event()
    session = asyncio.create_task(spoken(server, at_half, share=0.5))
    await until(at_half, session)
    victim = server.component(component)
    victim.kill()
    check_words(undisturbed, heard(await session))
    await eventually(lambda: replaced(server, component, victim.pid), seconds=60)
