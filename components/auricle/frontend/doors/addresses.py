"""Who is one client: the address a request comes from, and its neighbours in IPv6."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

UNKNOWN = "unknown"
_IPV6_PREFIX = 64  # what one customer is given, who may use any address of it
Network = IPv4Network | IPv6Network


def address_of(client: tuple[str, int] | None) -> str:
    """Return the peer's address as `host:port`; `unknown` if there is none (a Unix socket)."""
    return f"{client[0]}:{client[1]}" if client else UNKNOWN


def host_of(client: tuple[str, int] | None) -> str:
    """Return what counts as one client: an IPv4 address or the /64 network of an IPv6 one.

    `unknown` is everything that is neither, such as a header that a proxy let pass.
    """
    if client is None:
        return UNKNOWN
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return UNKNOWN
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _IPV6_PREFIX), strict=False))


def within(client: tuple[str, int] | None, networks: Sequence[Network]) -> bool:
    """Return whether the peer's address is in one of `networks`."""
    if client is None:
        return False
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    return any(address in network for network in networks)
