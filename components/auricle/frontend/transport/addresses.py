"""A client's address, and the network that counts as one client."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

UNKNOWN = "unknown"
_IPV6_PREFIXES = (64, 48)  # providers assign a /64 to a customer, a /48 to a site
Network = IPv4Network | IPv6Network
# The names of the networks that a client counts for, the narrowest first.
Networks = tuple[str, ...]


def address_of(client: tuple[str, int] | None) -> str:
    """Return the peer's address as `host:port`; `unknown` if there is none (a Unix socket)."""
    return f"{client[0]}:{client[1]}" if client else UNKNOWN


def networks_of(client: tuple[str, int] | None) -> Networks:
    """Return the networks that a client counts for: an IPv4 address, or the /64 and the /48 of an
    IPv6 one.

    `unknown` is everything that is neither, such as a header that a proxy let pass.
    """
    if client is None:
        return (UNKNOWN,)
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return (UNKNOWN,)
    if isinstance(address, ipaddress.IPv4Address):
        return (str(address),)
    if address.ipv4_mapped is not None:
        return (str(address.ipv4_mapped),)
    number = int(address)
    return tuple(str(IPv6Network((number, p), strict=False)) for p in _IPV6_PREFIXES)


def host_of(client: tuple[str, int] | None) -> str:
    """Return what counts as one client: an IPv4 address or the /64 network of an IPv6 one."""
    return networks_of(client)[0]


def within(client: tuple[str, int] | None, networks: Sequence[Network]) -> bool:
    if client is None:
        return False
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    return any(address in network for network in networks)
