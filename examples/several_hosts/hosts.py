"""The addresses of all hosts, from hosts.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import yaml

# Clients stay outside of the tunnels.
CLIENT = "client"


@dataclass(frozen=True)
class Hosts:
    """The IPv4 addresses by role, and the network of the tunnels if the hosts use WireGuard."""

    by_role: Mapping[str, Sequence[str]]
    tunnels: IPv4Network | None = None

    @property
    def connected(self) -> list[str]:
        """The real addresses of all hosts but clients, in order."""
        found = {one for role, own in self.by_role.items() if role != CLIENT for one in own}
        return sorted(found, key=IPv4Address)

    def internal(self, address: str) -> str:
        """Return the address that other hosts use for a host, by its real address.

        The address in the tunnel has the end of the real one: 10.99.1.31 for 10.0.1.31 if the
        network is 10.99.0.0/16.
        """
        if self.tunnels is None:
            return address
        return str(self.tunnels[int(IPv4Address(address)) & int(self.tunnels.hostmask)])


def read(path: Path) -> Hosts:
    """Return the content of hosts.yaml."""
    by_role = yaml.safe_load(path.read_text())
    tunnels = by_role.pop("tunnels", None)
    return Hosts(by_role, None if tunnels is None else IPv4Network(tunnels))
