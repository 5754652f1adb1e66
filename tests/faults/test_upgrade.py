"""Processes of two releases side by side: sessions continue, in an upgrade and in a roll-back.

The other release is this one with other versions of the wire (`auricle_testing/other_release.py`).
`AURICLE_TEST_UPGRADE_SESSIONS` is the number of live sessions at a time, see
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager

import pytest

from auricle.core.aio import cancelled
from auricle.protocol import WIRE
from auricle_testing.launcher import Launcher
from auricle_testing.replicas import used
from auricle_testing.server import (
    LIGHT_ENGINE,
    READY_SECONDS,
    UNHURRIED,
    Server,
    component_beside,
    eventually,
    free_port,
)
from auricle_testing.transcripts import heard
from tests.doctor import doctor
from tests.faults.sessions import check_words, spoken

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
SESSIONS = int(os.environ.get("AURICLE_TEST_UPGRADE_SESSIONS", "3"))
NEWER_ONLY, NEWER = (WIRE + 1, WIRE + 1), (WIRE, WIRE + 1)
# Receivers before senders, which would find no receiver that accepts their version.
POOLS = ("EncodeWorker", "PdWorker", "Processor", "Frontend")
INCOMPATIBLE = "auricle_internal_incompatible_instances"


def options(component: str) -> tuple[str, ...]:
    """The settings of the graph for a process that joins it."""
    common = ("--Common.load_report_seconds=0.5", "--Common.drain_seconds=120")
    own = {"PdWorker": LIGHT_ENGINE, "Processor": UNHURRIED}.get(component, ())
    return (*common, *own)


def joining(
    server: Server, component: str, wires: tuple[int, int], *more: str
) -> AbstractContextManager[Server]:
    return component_beside(server, component, *options(component), *more, wires=wires)


async def test_processes_of_another_version_are_used_by_each_other_only(
    server: Server, undisturbed: str
) -> None:
    """Encode worker, PD worker, processor and frontend join under live sessions."""
    sessions = [asyncio.create_task(spoken(server)) for _ in range(SESSIONS)]
    logged = len(server.log)
    with ExitStack() as stack:
        starting = (
            asyncio.to_thread(stack.enter_context, joining(server, component, NEWER_ONLY))
            for component in POOLS
        )
        joined = dict(zip(POOLS, await asyncio.gather(*starting), strict=True))
        ports = {name: joined[name].system_ports[name] for name in POOLS[:-1]}
        for events in await asyncio.gather(*sessions, spoken(server)):
            check_words(undisturbed, heard(events))
        assert [used(port, name) for name, port in ports.items()] == [0, 0, 0]
        assert server.metric("Processor", INCOMPATIBLE) == 2  # workers
        assert server.metric("Frontend", INCOMPATIBLE) == 1  # processor
        told = [line for line in server.log[logged:] if "gets no calls" in line]
        assert len(told) == 3 and all(f"sends version {WIRE}" in line for line in told)

        before = {name: server.metric(name, metric) for name, metric in WORK.items()}
        check_words(undisturbed, heard(await spoken(joined["Frontend"])))
        assert {name: server.metric(name, metric) for name, metric in WORK.items()} == before
        assert used(ports["EncodeWorker"], "EncodeWorker") > 0
        assert used(ports["PdWorker"], "PdWorker") > 0

        found = json.loads(doctor(server.url, "--json").output)["findings"]
        of_versions = [one for one in found if "of the wire" in one["what"]]
        assert len(of_versions) == 5 and not any(one["wrong"] for one in of_versions)


WORK = {
    "EncodeWorker": "auricle_encode_worker_windows_encoded_total",
    "PdWorker": "auricle_pd_worker_decodes_total",
}


@asynccontextmanager
async def live_sessions(
    server: Server, urls: tuple[str, ...], expected: str
) -> AsyncIterator[None]:
    """Keep sessions open while the block runs. Then check that none has failed or lost a word."""
    over = asyncio.Event()

    async def one_after_the_other() -> list[str]:
        texts = []
        while not over.is_set():
            texts.append(heard(await spoken(server, urls=urls)))
        return texts

    sessions = [asyncio.create_task(one_after_the_other()) for _ in range(SESSIONS)]
    try:
        yield
        over.set()
        texts = await asyncio.gather(*sessions)
    finally:
        await cancelled(sessions)
    assert all(texts)
    heard_texts = [text for some in texts for text in some]
    for text in heard_texts:
        check_words(expected, text)
    print(f"{len(heard_texts)} sessions, {SESSIONS} at a time: words lost 0, sessions ended 0")


@pytest.mark.timeout(1800)  # with 20 sessions on a busy machine
async def test_a_graph_is_upgraded_pool_by_pool_and_rolled_back(
    server: Server, undisturbed: str
) -> None:
    launcher, port = Launcher(server), free_port()
    urls = (server.url, f"http://127.0.0.1:{port}")
    stacks = {component: ExitStack() for component in POOLS}

    async def upgrade(component: str) -> None:
        more = (f"--Frontend.port={port}",) if component == "Frontend" else ()
        entering = joining(server, component, NEWER, *more)
        await asyncio.to_thread(stacks[component].enter_context, entering)
        launcher.scale(component, 0)
        await eventually(lambda: not running(server, component), READY_SECONDS)

    async def roll_back(component: str) -> None:
        launcher.scale(component, 1)
        await eventually(lambda: launcher.settled(component, 1), READY_SECONDS)
        await asyncio.to_thread(stacks[component].close)

    async with live_sessions(server, urls, undisturbed):
        try:
            for component in POOLS:
                await upgrade(component)
            assert not any(running(server, component) for component in POOLS)
            for component in reversed(POOLS):
                await roll_back(component)
        finally:
            for component in POOLS:
                launcher.scale(component, 1)
                await asyncio.to_thread(stacks[component].close)


def running(server: Server, component: str) -> bool:
    """Whether the launcher has a process of the component."""
    try:
        return server.component(component).is_running()
    except LookupError:
        return False
