"""One graph on several hosts, which are network namespaces, for all tests here.

WireGuard connects the hosts if it is installed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from auricle_testing.hosts import Network, missing
from auricle_testing.several_hosts import ROLES, Deployment, deployed, missing_tunnels, role_of
from examples.several_hosts import firewall
from examples.several_hosts.hosts import Hosts

UPLOADS_PER_ADDRESS = 2


@pytest.fixture(scope="package")
def deployment() -> Iterator[Deployment]:
    """The graph behind the example's firewall rules; the tests run on the client's host."""
    if why := missing():
        pytest.skip(why)
    with (
        TemporaryDirectory(prefix="auricle-test-") as folder,
        deployed(
            Path(folder),
            f"--Frontend.max_uploads_per_address={UPLOADS_PER_ADDRESS}",
            # A frontend that was unplugged keeps its lease: it does not restart.
            "--Frontend.etcd_lease_seconds=60",
            tunnels=not missing_tunnels(),
            prepare=protect,
        ) as running,
    ):
        yield running


def protect(network: Network, hosts: Hosts) -> None:
    """Load the example's firewall rules on all hosts but the clients', if nftables is there."""
    if shutil.which("nft") is None:
        return
    for name in network.hosts.keys() - ROLES["client"]:
        rules = "\n".join(firewall.rules(role_of(name), hosts))
        subprocess.run(
            network.hosts[name].command("nft", "-f", "-"),
            input=rules,
            text=True,
            check=True,
            timeout=60,
        )


@pytest.fixture
def firewalled(deployment: Deployment) -> None:
    """Skip the test where the hosts have no firewall."""
    assert deployment
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
