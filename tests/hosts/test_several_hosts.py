"""Ports of a graph whose processes are on hosts of their own; partitions between its hosts."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from auricle_testing import recordings
from auricle_testing.server import READY_SECONDS
from auricle_testing.several_hosts import (
    CLIENT,
    COMPONENTS,
    MONITORING,
    ROLES,
    Deployment,
    role_of,
    until,
)
from auricle_testing.transcripts import heard
from examples.several_hosts.firewall import openings
from tests.hosts.sessions import begun

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
_CONNECT_SECONDS = 1.0


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


@dataclass(frozen=True)
class Target:
    """A port of a host at one of its addresses, for hosts of the roles `users`."""

    role: str
    host: str
    address: str
    port: int
    users: frozenset[str]


def targets(deployment: Deployment) -> Iterator[Target]:
    """Yield the open ports of the first host of each role.

    With tunnels a host has two addresses: clients use the real one, all others the tunnel's.
    """
    everybody, outside = frozenset(deployment.hosts.by_role), frozenset({CLIENT})
    for role in ROLES.keys() - outside:
        host = ROLES[role][0]
        real, internal = deployment.network.hosts[host].address, deployment.address(host)
        users = (
            {real: everybody}
            if real == internal
            else {real: outside, internal: everybody - outside}
        )
        for port in listening(deployment, host):
            for address, permitted in users.items():
                yield Target(role, host, address, port, permitted)


def test_other_hosts_reach_only_ports_that_the_table_opens_to_them(
    deployment: Deployment, firewalled: None
) -> None:
    """A host of each role tries all targets."""
    tried = list(targets(deployment))
    assert {target.role for target in tried} > COMPONENTS.keys()
    sources = {hosts[-1]: {role} for role, hosts in ROLES.items()}
    sources[MONITORING] = {CLIENT, "monitoring"}
    wrong = []
    for source, roles in sources.items():
        with deployment.network.hosts[source].entered():
            found = reached([(target.address, target.port) for target in tried])
        for target, open_ in zip(tried, found, strict=True):
            users = roles & target.users
            allowed = any(
                o.allows(one, target.role, target.port) for o in openings() for one in users
            )
            if open_ != allowed and source != target.host:
                wrong.append((source, target, open_))
    assert wrong == []


def sessions_of(deployment: Deployment) -> Callable[[str], float]:
    """Return the number of a processor's open sessions, by its host."""
    return lambda host: deployment.metric(host, "auricle_processor_sessions")


async def test_a_session_leaves_a_processor_that_its_frontend_cannot_reach(
    deployment: Deployment,
) -> None:
    """A cut drops packets without a notice, so neither side sees the end of a connection."""
    frontend = ROLES["frontend"][0]
    speaking = await begun(deployment.urls, "kitchen")
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


@contextmanager
def without_etcd(deployment: Deployment, host: str) -> Iterator[None]:
    """The host reaches no member of etcd while the block runs."""
    for member in ROLES["etcd"]:
        deployment.network.cut(host, member)
        deployment.network.cut(member, host)
    try:
        yield
    finally:
        deployment.network.heal()


async def test_a_session_leaves_a_processor_that_loses_its_lease(deployment: Deployment) -> None:
    """Without discovery it reaches no worker, while the other processor does."""
    before = deployment.registered()
    speaking = await begun(deployment.urls, "market")  # longer than a lease
    used = max(ROLES["processor"], key=sessions_of(deployment))
    with without_etcd(deployment, used):
        events = await speaking
    assert heard(events) == recordings.words("market")
    await asyncio.to_thread(
        until,
        lambda: len(deployment.registered()) == len(before) and deployment.whole(),
        READY_SECONDS,
        lambda: "it did not register again",
    )


def test_a_worker_that_loses_its_lease_is_not_listed_until_it_registers_again(
    deployment: Deployment,
) -> None:
    host = ROLES["encode"][0]
    before = deployment.registered()
    with without_etcd(deployment, host):
        until(
            lambda: len(deployment.registered()) < len(before),
            READY_SECONDS,
            lambda: "its records outlived its lease",
        )
        kept = set(deployment.registered())
    assert kept < set(before)
    until(deployment.whole, READY_SECONDS, lambda: "it did not recover")
    until(
        lambda: len(deployment.registered()) == len(before),
        READY_SECONDS,
        lambda: "it did not register again",
    )
    assert not (set(before) - kept) & set(deployment.registered()), "its old lease is used again"
