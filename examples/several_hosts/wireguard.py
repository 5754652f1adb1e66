"""WireGuard's configurations (wg-quick) of all hosts, each connected to each, from hosts.yaml.

    python -m examples.several_hosts.wireguard HOSTS FOLDER

HOSTS is a YAML file with the addresses of each role's hosts, and the network of the tunnels. Writes
FOLDER/ADDRESS/wg0.conf for each host, with its private key: /etc/wireguard/wg0.conf of that host,
and of no other. Keys that are in FOLDER already are kept.
"""

from __future__ import annotations

import argparse
import base64
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from examples.several_hosts.hosts import Hosts, read

PORT = 51820  # UDP
DEVICE = "wg0"


def configurations(hosts: Hosts, keys: Mapping[str, X25519PrivateKey]) -> dict[str, str]:
    """Return the file of each host, by its real address; `keys` has the keys of all hosts.

    Raises ValueError if two hosts would have one address in the tunnels, or `hosts` lacks their
    network.
    """
    if hosts.tunnels is None:
        raise ValueError("the hosts have no network for tunnels")
    internal = Counter(map(hosts.internal, hosts.connected))
    if doubled := [address for address, number in internal.items() if number > 1]:
        raise ValueError(f"{', '.join(doubled)} would be the tunnel's address of several hosts")
    peers = {
        address: [
            "[Peer]",
            f"PublicKey = {_text(keys[address].public_key().public_bytes_raw())}",
            f"Endpoint = {address}:{PORT}",
            f"AllowedIPs = {hosts.internal(address)}/32",
            "",
        ]
        for address in hosts.connected
    }
    return {
        address: "\n".join(
            [
                "[Interface]",
                f"Address = {hosts.internal(address)}/{hosts.tunnels.prefixlen}",
                f"ListenPort = {PORT}",
                f"PrivateKey = {_text(keys[address].private_bytes_raw())}",
                "",
                *(line for other in hosts.connected if other != address for line in peers[other]),
            ]
        )
        for address in hosts.connected
    }


def write(hosts: Hosts, folder: Path) -> dict[str, Path]:
    """Write the files of all hosts, readable by their owner only; return them by real address."""
    files = {address: folder / address / f"{DEVICE}.conf" for address in hosts.connected}
    keys = {address: _key(file) for address, file in files.items()}
    for address, text in configurations(hosts, keys).items():
        files[address].parent.mkdir(parents=True, exist_ok=True)
        files[address].touch(mode=0o600)
        files[address].write_text(text)
    return files


def _key(file: Path) -> X25519PrivateKey:
    """Return the private key of a host's earlier file; a new key if there is none."""
    found = re.search(r"^PrivateKey = (.+)$", file.read_text(), re.M) if file.exists() else None
    if found is None:
        return X25519PrivateKey.generate()
    return X25519PrivateKey.from_private_bytes(base64.b64decode(found[1]))


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()


def main() -> None:
    """Write the files that the command line requests, and print their names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hosts", type=Path)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    try:
        files = write(read(chosen.hosts), chosen.folder)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(map(str, files.values())))


if __name__ == "__main__":
    main()
