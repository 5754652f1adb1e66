"""One graph on several hosts, which are network namespaces, for all tests here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from auricle_testing.hosts import Network, missing
from auricle_testing.several_hosts import CLIENT, ROLES, Deployment, deployed, role_of
from examples.several_hosts import firewall


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """The graph behind the example's firewall rules; the tests run on the client's host."""
    if why := missing():
        pytest.skip(why)
    with (
        TemporaryDirectory(prefix="auricle-test-") as folder,
        deployed(Path(folder), prepare=protect) as running,
    ):
        yield running


def protect(network: Network) -> None:
    """Load the example's firewall rules on all hosts but the client's, if nftables is there."""
    if shutil.which("nft") is None:
        return
    hosts = network.hosts
    addresses = {role: [hosts[name].address for name in names] for role, names in ROLES.items()}
    addresses["monitoring"] = [hosts[CLIENT].address]
    for name in hosts.keys() - {CLIENT}:
        rules = "\n".join(firewall.rules(role_of(name), addresses))
        subprocess.run(
            hosts[name].command("nft", "-f", "-"), input=rules, text=True, check=True, timeout=60
        )


@pytest.fixture
def firewalled(deployment: Deployment) -> None:
    """Skip the test where the hosts have no firewall."""
    assert deployment
    if shutil.which("nft") is None:
        pytest.skip("nftables is not installed")
