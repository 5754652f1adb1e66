"""A process that is frozen, or loses its engine, during a session costs time, not words."""

from __future__ import annotations

import asyncio
import re

import psutil
import pytest

from auricle_testing.launcher import Launcher
from auricle_testing.replicas import InUse, engine_of
from auricle_testing.server import READY_SECONDS, Server, eventually
from auricle_testing.transcripts import heard
from tests.engine_under_test import of_an_engines_process
from tests.faults.freezing import freeze
from tests.faults.sessions import check_words, spoken, until

pytestmark = pytest.mark.end_to_end


async def two_each(server: Server, *components: str) -> Launcher:
    """Wait until each has two ready replicas; the other tests' fixture removes them again."""
    launcher = Launcher(server)
    for component in components:
        launcher.scale(component, 2)
    for component in components:
        await eventually(lambda name=component: launcher.settled(name, 2), READY_SECONDS)
    return launcher


class Spoken:
    """A session in progress, and the replicas that it uses."""

    def __init__(self, server: Server, *components: str) -> None:
        self._in_use = {component: InUse(server, component) for component in components}
        self.at_half = asyncio.Event()
        self.session = asyncio.create_task(spoken(server, self.at_half, share=0.4))

    def replica(self, component: str) -> psutil.Process:
        return self._in_use[component].replica()


@pytest.mark.deployment
async def test_a_session_leaves_workers_that_are_frozen(server: Server, undisturbed: str) -> None:
    await two_each(server, "EncodeWorker", "PdWorker", "Processor")
    logged = len(server.log)
    one = Spoken(server, "EncodeWorker", "PdWorker")
    await until(one.at_half, one.session)
    victims = [one.replica(component) for component in ("EncodeWorker", "PdWorker")]
    for victim in victims:
        await freeze(victim)
    check_words(undisturbed, heard(await one.session))
    # The test does not resume them, so the launcher ends them.
    await eventually(lambda: not any(v.is_running() for v in victims), seconds=60)
    ended = r"^{}(-\d+)? .*has not answered for"
    for component in ("EncodeWorker", "PdWorker"):
        pattern = re.compile(ended.format(component), re.MULTILINE)
        await eventually(lambda p=pattern: p.search(said(server, logged)) is not None, seconds=60)


async def test_a_session_leaves_a_processor_that_is_frozen(
    disturbed: Server, undisturbed: str
) -> None:
    await two_each(disturbed, "Processor")
    logged = len(disturbed.log)
    one = Spoken(disturbed, "Processor")
    await until(one.at_half, one.session)
    victim = one.replica("Processor")
    await freeze(victim)
    check_words(undisturbed, heard(await one.session))
    await eventually(lambda: "moves to another processor" in said(disturbed, logged), seconds=60)
    await eventually(lambda: not victim.is_running(), seconds=60)


@pytest.mark.deployment
@of_an_engines_process
async def test_a_session_outlives_its_engine(disturbed: Server, undisturbed: str) -> None:
    """Only the engine is killed, as by the OOM killer; its PD worker reports that and ends."""
    await two_each(disturbed, "PdWorker")
    logged = len(disturbed.log)
    one = Spoken(disturbed, "PdWorker")
    await until(one.at_half, one.session)
    victim = one.replica("PdWorker")
    engine_of(victim).kill()
    check_words(undisturbed, heard(await one.session))
    await eventually(lambda: not victim.is_running(), seconds=60)
    last_words = re.compile(r"auricle: \S+ died: .*[Ee]ngine")
    await eventually(lambda: last_words.search(said(disturbed, logged)) is not None, seconds=60)
    assert "Traceback" not in said(disturbed, logged).split("auricle: ")[-1]


def said(server: Server, since: int) -> str:
    """The log since then; a process may still be writing its last lines."""
    return "\n".join(server.log[since:])
