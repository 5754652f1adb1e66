"""A graph whose processes are on hosts of their own; its ports; partitions between its hosts."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from auricle.client.stream import Event, stream_file
from auricle_testing import recordings
from auricle_testing.server import READY_SECONDS
from auricle_testing.several_hosts import (
    CLIENT,
    COMPONENTS,
    ROLES,
    Deployment,
    role_of,
    until,
)
from auricle_testing.transcripts import heard
from examples.several_hosts.firewall import openings

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
_CONNECT_SECONDS = 1.0


async def test_a_live_session_crosses_hosts(deployment: Deployment) -> None:
    samples = recordings.samples("station")
    events = [event async for event in stream_file(deployment.urls, samples, live=True)]
    assert heard(events) == recordings.words("station")
    received = [
        deployment.metric(host, "auricle_pd_worker_received_bytes_total", transport="nixl")
        for host in ROLES["pd"]
    ]
    assert sum(received) > 0, "no embeddings came over the network"


def listening(deployment: Deployment, host: str) -> set[int]:
    """The TCP ports on which other hosts could connect to this one, as its kernel lists them."""
    namespace = deployment.network.hosts[host].namespace
    listed = subprocess.run(
        ["ip", "netns", "exec", namespace, "ss", "--no-header", "-tln"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = (re.match(r"(.*):(\d+)$", line.split()[3]) for line in listed.stdout.splitlines())
    return {int(one[2]) for one in found if one and not one[1].startswith(("127.", "[::1]"))}


def reached(targets: list[tuple[str, int]]) -> list[bool]:
    """Whether this host can connect to each address and port, all tried at once."""

    def reaches(target: tuple[str, int]) -> bool:
        try:
            socket.create_connection(target, _CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(len(targets)) as threads:
        return list(threads.map(reaches, targets))


def test_the_table_names_every_open_port(deployment: Deployment) -> None:
    unnamed = []
    for host in deployment.programs:
        ports = listening(deployment, host)
        assert ports, f"{host} has no port"
        for port in ports:
            if not any(o.first <= port <= o.last and role_of(host) in o.listen for o in openings()):
                unnamed.append((host, port))
    assert unnamed == []


def test_other_hosts_reach_only_ports_that_the_table_opens_to_them(
    deployment: Deployment, firewalled: None
) -> None:
    """A host of each role tries the open ports of the first host of each role."""
    listed = [
        (role, ROLES[role][0], port)
        for role in ROLES
        if role != CLIENT
        for port in sorted(listening(deployment, ROLES[role][0]))
    ]
    assert {role for role, _, _ in listed} > COMPONENTS.keys()
    targets = [(deployment.address(host), port) for _, host, port in listed]
    wrong = []
    for source, hosts in ROLES.items():
        sources = {source, "monitoring"} if source == CLIENT else {source}
        with deployment.network.hosts[hosts[-1]].entered():
            found = reached(targets)
        for (role, host, port), open_ in zip(listed, found, strict=True):
            allowed = any(o.allows(one, role, port) for o in openings() for one in sources)
            if open_ != allowed and hosts[-1] != host:
                wrong.append((hosts[-1], host, port, open_))
    assert wrong == []


def sessions_of(deployment: Deployment) -> Callable[[str], float]:
    """Return the number of a processor's open sessions, by its host."""
    return lambda host: deployment.metric(host, "auricle_processor_sessions")


async def begun(deployment: Deployment, recording: str) -> asyncio.Task[list[Event]]:
    """Begin a live session; return its task after the first text."""
    first = asyncio.Event()

    async def spoken() -> list[Event]:
        found = []
        samples = recordings.samples(recording)
        async for event in stream_file(deployment.urls, samples, live=True):
            found.append(event)
            if event["type"] == "partial":
                first.set()
        return found

    speaking = asyncio.create_task(spoken())
    speaking.add_done_callback(lambda _: first.set())
    await first.wait()
    return speaking


async def test_a_session_leaves_a_processor_that_its_frontend_cannot_reach(
    deployment: Deployment,
) -> None:
    """A cut drops packets without a notice, so neither side sees the end of a connection."""
    frontend = ROLES["frontend"][0]
    speaking = await begun(deployment, "kitchen")
    used = max(ROLES["processor"], key=sessions_of(deployment))
    deployment.network.cut(frontend, used)
    deployment.network.cut(used, frontend)
    try:
        events = await speaking
    finally:
        deployment.network.heal()
    assert heard(events) == recordings.words("kitchen")
    await asyncio.to_thread(
        until,
        lambda: not any(map(sessions_of(deployment), ROLES["processor"])),
        READY_SECONDS,
        lambda: "a processor still holds the session",
    )


async def test_a_session_leaves_a_processor_that_loses_its_lease(deployment: Deployment) -> None:
    """Without discovery it reaches no worker, while the other processor does."""
    speaking = await begun(deployment, "evening")
    used = max(ROLES["processor"], key=sessions_of(deployment))
    for member in ROLES["etcd"]:
        deployment.network.cut(used, member)
        deployment.network.cut(member, used)
    try:
        events = await speaking
    finally:
        deployment.network.heal()
    assert heard(events) == recordings.words("evening")


def test_a_worker_that_loses_its_lease_is_not_listed_until_it_registers_again(
    deployment: Deployment,
) -> None:
    host = ROLES["encode"][0]
    before = deployment.registered()
    for member in ROLES["etcd"]:
        deployment.network.cut(host, member)
        deployment.network.cut(member, host)
    try:
        until(
            lambda: len(deployment.registered()) < len(before),
            READY_SECONDS,
            lambda: "its records outlived its lease",
        )
        kept = set(deployment.registered())
    finally:
        deployment.network.heal()
    assert kept < set(before)
    until(deployment.whole, READY_SECONDS, lambda: "it did not recover")
    until(
        lambda: len(deployment.registered()) == len(before),
        READY_SECONDS,
        lambda: "it did not register again",
    )
    assert not (set(before) - kept) & set(deployment.registered()), "its old lease is used again"
