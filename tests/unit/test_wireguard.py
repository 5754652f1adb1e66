"""The configurations of WireGuard that examples/several_hosts makes."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from examples.several_hosts.hosts import Hosts, read
from examples.several_hosts.wireguard import configurations, write

pytestmark = pytest.mark.unit
TUNNELS = IPv4Network("10.99.0.0/16")
HOSTS = Hosts(
    {"client": ["10.0.0.7"], "nats": ["10.0.1.21"], "pd": ["10.0.1.61", "10.0.1.62"]}, TUNNELS
)


def made(hosts: Hosts) -> dict[str, str]:
    return configurations(hosts, {one: X25519PrivateKey.generate() for one in hosts.connected})


def test_each_host_but_clients_is_connected_to_each() -> None:
    files = made(HOSTS)
    assert list(files) == ["10.0.1.21", "10.0.1.61", "10.0.1.62"]
    assert "Address = 10.99.1.61/16" in files["10.0.1.61"].splitlines()
    peers = re.findall(r"Endpoint = (\S+)\nAllowedIPs = (\S+)", files["10.0.1.61"])
    assert peers == [
        ("10.0.1.21:51820", "10.99.1.21/32"),
        ("10.0.1.62:51820", "10.99.1.62/32"),
    ]


def test_a_host_has_its_own_private_key_only() -> None:
    files = made(HOSTS)
    keys = [re.findall("PrivateKey = (.+)", text) for text in files.values()]
    assert [len(own) for own in keys] == [1, 1, 1]
    assert len({own[0] for own in keys}) == 3


def test_a_further_host_leaves_the_others_their_keys(tmp_path: Path) -> None:
    def key(file: Path) -> list[str]:
        return re.findall("PrivateKey = .+", file.read_text())

    before = {address: key(file) for address, file in write(HOSTS, tmp_path).items()}
    after = write(Hosts({**HOSTS.by_role, "etcd": ["10.0.1.11"]}, TUNNELS), tmp_path)
    assert {address: key(after[address]) for address in before} == before
    assert "Endpoint = 10.0.1.11:51820" in after["10.0.1.21"].read_text()
    assert {file.stat().st_mode & 0o777 for file in after.values()} == {0o600}


def test_hosts_whose_addresses_end_alike_need_a_larger_network() -> None:
    hosts = Hosts({"nats": ["10.0.1.21"], "pd": ["10.0.2.21"]}, IPv4Network("10.99.0.0/24"))
    with pytest.raises(ValueError, match="would be the tunnel's address of several"):
        made(hosts)


def test_the_file_of_hosts_names_the_network(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("pd: [10.0.1.61]\ntunnels: 10.99.0.0/16\n")
    assert read(file) == Hosts({"pd": ["10.0.1.61"]}, TUNNELS)
