"""A live session of a graph whose processes are on hosts of their own, and its packets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from auricle.client.stream import Event, stream_file
from auricle_testing import recordings
from auricle_testing.several_hosts import CLIENT_PORT, ROLES, Deployment, missing_tunnels
from auricle_testing.transcripts import heard
from examples.several_hosts.wireguard import PORT

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
_TABLE = "inet counted"


def nft(deployment: Deployment, *arguments: str, rules: str = "") -> str:
    """Run nftables' program on the router of all hosts."""
    done = subprocess.run(
        ["ip", "netns", "exec", deployment.network.router, "nft", *arguments],
        input=rules,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


@contextlib.contextmanager
def counted(deployment: Deployment) -> Iterator[Callable[[], dict[str, int]]]:
    """Count the bytes between hosts; yield a function that returns them, by kind of packet."""
    clients = ", ".join(deployment.network.hosts[name].address for name in ROLES["client"])
    rules = f"""table {_TABLE} {{
        counter tunnels {{}}
        counter clients {{}}
        counter others {{}}
        chain forward {{
            type filter hook forward priority filter;
            udp dport {PORT} counter name tunnels accept
            ip saddr {{ {clients} }} tcp dport {CLIENT_PORT} counter name clients accept
            ip daddr {{ {clients} }} tcp sport {CLIENT_PORT} counter name clients accept
            counter name others
        }}
    }}"""

    def count() -> dict[str, int]:
        listed = json.loads(nft(deployment, "-j", "list", "counters"))["nftables"]
        counters = [one["counter"] for one in listed if "counter" in one]
        return {counter["name"]: counter["bytes"] for counter in counters}

    nft(deployment, "-f", "-", rules=rules)
    try:
        yield count
    finally:
        nft(deployment, "delete", "table", *_TABLE.split())


@dataclass(frozen=True)
class Session:
    """A live session's events, the bytes of its embeddings, and all bytes between hosts.

    `crossed` is None without nftables.
    """

    events: list[Event]
    embeddings: float
    crossed: dict[str, int] | None


@pytest.fixture(scope="module")
def session(deployment: Deployment) -> Session:
    """One session, which the client begins at the first frontend."""

    def received() -> float:
        name = "auricle_pd_worker_received_bytes_total"
        return sum(deployment.metric(host, name, transport="nixl") for host in ROLES["pd"])

    async def spoken() -> list[Event]:
        samples = recordings.samples("station")
        return [event async for event in stream_file(deployment.urls, samples, live=True)]

    before = received()
    if shutil.which("nft") is None:
        return Session(asyncio.run(spoken()), received() - before, None)
    with counted(deployment) as count:
        events = asyncio.run(spoken())
        return Session(events, received() - before, count())


def test_a_live_session_crosses_hosts(session: Session) -> None:
    assert heard(session.events) == recordings.words("station")
    assert session.embeddings > 0, "no embeddings came over the network"


def test_only_wireguard_and_clients_use_the_network(session: Session, firewalled: None) -> None:
    if why := missing_tunnels():
        pytest.skip(why)
    assert session.crossed is not None
    assert session.crossed["others"] == 0
    assert session.crossed["clients"] > 0
    assert session.crossed["tunnels"] > session.embeddings
