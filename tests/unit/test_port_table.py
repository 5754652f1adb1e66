"""The page about several hosts and the firewall rules have the rows of ports.yaml."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from auricle_testing.server import ROOT
from examples.several_hosts.firewall import Opening, openings, rules
from examples.several_hosts.hosts import Hosts

pytestmark = pytest.mark.unit
PAGE = ROOT / "docs/several_hosts.md"
HOSTS = {
    "client": ["10.0.0.0/24"],
    "frontend": ["10.0.1.31"],
    "processor": ["10.0.1.41", "10.0.1.42"],
    "pd": ["10.0.1.61"],
}


def openings_of(role: str, hosts: Hosts) -> list[str]:
    """The rules that open a port."""
    return [line.strip() for line in rules(role, hosts) if "dport" in line]


def row(opening: Opening) -> str:
    cells = (opening.ports, ", ".join(opening.listen), ", ".join(opening.sources), opening.use)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def test_the_page_has_the_table() -> None:
    lines = PAGE.read_text().splitlines()
    begin = lines.index("| TCP ports | open on | to | use |") + 2
    assert lines[begin : lines.index("", begin)] == [row(opening) for opening in openings()]


def test_rules_drop_all_but_the_ports_of_the_role() -> None:
    hosts = Hosts(HOSTS)
    lines = [line.strip() for line in rules("processor", hosts)]
    assert "type filter hook input priority filter; policy drop;" in lines
    assert openings_of("processor", hosts) == [
        "ip saddr { 10.0.1.31, 10.0.1.41, 10.0.1.42 } tcp dport 9345 accept",
        "ip saddr { 10.0.1.31, 10.0.1.41, 10.0.1.42, 10.0.1.61 } tcp dport 9346 accept",
    ]


def test_with_tunnels_only_clients_and_wireguard_use_the_real_network() -> None:
    assert openings_of("frontend", Hosts(HOSTS, IPv4Network("10.99.0.0/16"))) == [
        "ip saddr { 10.0.1.31, 10.0.1.41, 10.0.1.42, 10.0.1.61 } udp dport 51820 accept",
        "ip saddr { 10.0.0.0/24 } tcp dport 8080 accept",
        'iifname "wg0" ip saddr { 10.99.1.31, 10.99.1.41, 10.99.1.42 } tcp dport 9345 accept',
        'iifname "wg0" ip saddr { 10.99.1.31, 10.99.1.41, 10.99.1.42, 10.99.1.61 } '
        "tcp dport 9346 accept",
    ]


def test_a_role_reaches_only_its_ports() -> None:
    def allowed(source: str, role: str, port: int) -> bool:
        return any(opening.allows(source, role, port) for opening in openings())

    assert allowed("pd", "encode", 20_050)
    assert not allowed("pd", "encode", 20_100)
    assert not allowed("client", "processor", 9345)
    assert not allowed("frontend", "encode", 20_050)
