"""Firewall rules of one host (nftables), from ports.yaml.

    python -m examples.several_hosts.firewall ROLE HOSTS

HOSTS is a YAML file that lists the addresses of each role's hosts. The rules drop everything that
ports.yaml does not name, ssh included: add your own access first. If HOSTS has a network for
tunnels, hosts reach each other's ports through them only; clients need no tunnel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from examples.several_hosts import wireguard
from examples.several_hosts.hosts import CLIENT, Hosts, read

PORTS = Path(__file__).with_name("ports.yaml")


@dataclass(frozen=True)
class Opening:
    """One row of ports.yaml: TCP ports that hosts of some roles open to hosts of others."""

    first: int
    last: int
    listen: tuple[str, ...]
    sources: tuple[str, ...]
    use: str

    @property
    def ports(self) -> str:
        """The port, or the range, as nftables and the page write it."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def allows(self, source: str, role: str, port: int) -> bool:
        """Whether hosts of the role `source` may connect to a port of hosts of the role `role`."""
        return role in self.listen and source in self.sources and self.first <= port <= self.last


def openings(path: Path = PORTS) -> list[Opening]:
    """Return the rows of the table."""
    return [_opening(row) for row in yaml.safe_load(path.read_text())]


def _opening(row: Mapping[str, Any]) -> Opening:
    first, _, last = str(row["ports"]).partition("-")
    listen, sources = tuple(row["listen"]), tuple(row["from"])
    return Opening(int(first), int(last or first), listen, sources, row["use"])


def rules(role: str, hosts: Hosts) -> Iterator[str]:
    """Yield the lines of the rules of a role's hosts."""
    yield "table inet auricle"
    yield "delete table inet auricle"
    yield "table inet auricle {"
    yield "  chain input {"
    yield "    type filter hook input priority filter; policy drop;"
    yield "    ct state established,related accept"
    yield '    iif "lo" accept'
    yield "    meta l4proto { icmp, ipv6-icmp } accept"
    if hosts.tunnels is not None:
        yield f"    {_from(hosts.connected)} udp dport {wireguard.PORT} accept"
    for opening in openings():
        if role in opening.listen:
            yield from (f"    {match} accept" for match in _matches(opening, hosts))
    yield "  }"
    yield "}"


def _matches(opening: Opening, hosts: Hosts) -> Iterator[str]:
    """Yield the packets that a row permits: from the real network, and from the tunnels."""
    real, internal = set[str](), set[str]()
    for source in opening.sources:
        outside = hosts.tunnels is None or source == CLIENT
        (real if outside else internal).update(hosts.by_role.get(source, ()))
    if real:
        yield f"{_from(real)} tcp dport {opening.ports}"
    if internal:
        sources = _from(map(hosts.internal, internal))
        yield f'iifname "{wireguard.DEVICE}" {sources} tcp dport {opening.ports}'


def _from(addresses: Iterable[str]) -> str:
    return f"ip saddr {{ {', '.join(sorted(addresses))} }}"


def main() -> None:
    """Print the rules of the command line's host."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=sorted({r for o in openings() for r in o.listen}))
    parser.add_argument("hosts", type=Path)
    chosen = parser.parse_args()
    print("\n".join(rules(chosen.role, read(chosen.hosts))))


if __name__ == "__main__":
    main()
