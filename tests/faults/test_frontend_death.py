"""A frontend that is killed or drains costs its clients a moment: no word is lost or repeated."""

from __future__ import annotations

import asyncio
import signal

import psutil
import pytest

from auricle_testing.server import ANSWER_SECONDS, Server, eventually, frontend_beside
from auricle_testing.transcripts import heard
from tests.faults.sessions import check_words, replaced, spoken, until

pytestmark = pytest.mark.end_to_end
SHARE = 0.4  # the part of the session before its frontend is killed


async def test_a_client_goes_on_at_the_frontend_that_is_started_in_its_place(
    server: Server, undisturbed: str
) -> None:
    reached, lines = asyncio.Event(), list[str]()
    session = asyncio.create_task(spoken(server, reached, SHARE, told=lines.append))
    await until(reached, session)
    frontend = server.component("Frontend")
    frontend.send_signal(signal.SIGKILL)
    check_words(undisturbed, heard(await session))
    assert len(lines) == 1 and lines[0].endswith("resuming")
    await eventually(lambda: replaced(server, "Frontend", frontend.pid), seconds=60)


async def test_a_client_goes_on_at_another_frontend(server: Server, undisturbed: str) -> None:
    reached, lines = asyncio.Event(), list[str]()
    # The test kills it, which `frontend_beside` reports at its end.
    with (
        pytest.raises(AssertionError, match="did not end cleanly"),
        frontend_beside(server) as other,
    ):
        urls = [other.url, server.url]
        session = asyncio.create_task(spoken(server, reached, SHARE, urls=urls, told=lines.append))
        await until(reached, session)
        psutil.Process(other.process.pid).send_signal(signal.SIGKILL)
        other.process.wait(ANSWER_SECONDS)
        events = await session
    check_words(undisturbed, heard(events))
    assert lines and other.url in lines[0]
    assert server.metric("Frontend", "auricle_frontend_sessions_resumed_total") >= 1


async def test_a_client_goes_on_at_another_frontend_while_its_own_drains(
    server: Server, undisturbed: str
) -> None:
    reached, name = asyncio.Event(), "auricle_frontend_sessions_resumed_total"
    before = server.metric("Frontend", name)
    # Its drain ends before the session would.
    with frontend_beside(server, "--Frontend.drain_seconds=0.5") as other:
        urls = [other.url, server.url]
        session = asyncio.create_task(spoken(server, reached, SHARE, urls=urls))
        await until(reached, session)
        psutil.Process(other.process.pid).send_signal(signal.SIGTERM)
        events = await session
        other.process.wait(ANSWER_SECONDS)
    check_words(undisturbed, heard(events))
    assert server.metric("Frontend", name) == before + 1
