"""The graph under attack: with API keys and a temporary folder of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from auricle.frontend.doors.access.keys import new_key
from benchmarks.hostile import watch
from benchmarks.hostile.attackers.target import Target
from tests import recordings
from tests.server import AS_DELIVERED, Server, serving

_TENANTS = ("witness", "attacker", "newcomer", "withdrawn-tenant")
# Every process puts its sockets there, and who may reach them is what is looked at. The server of
# the decoding processes is not attacked: only processes of the same user reach it, and are trusted.
_OWN_SOCKETS = ("launcher.sock", "control", "pubsub", "stats")


@dataclass(frozen=True)
class Graph:
    """A running graph, its tenants' keys, and the folder that is its TMPDIR."""

    server: Server
    keys: dict[str, str]
    folder: Path

    def target(self) -> Target:
        """What an attacker may know of it now."""
        return target_of(self.server, self.keys, self.folder)


def target_of(server: Server, keys: dict[str, str], folder: Path | None = None) -> Target:
    """What an attacker may know of a running graph now; without keys none are needed.

    `folder` is where its processes have their sockets, if they are to be attacked.
    """
    url = httpx.URL(server.url)
    found = [path for path in folder.rglob("*") if path.is_socket()] if folder else []
    return Target(
        host=url.host,
        port=url.port or 80,
        key=keys.get("attacker", ""),
        newcomer=keys.get("newcomer", ""),
        withdrawn=keys.get("withdrawn-tenant", ""),
        witness="",
        tenant="witness",
        namespace="auricle",
        discovery=str(server.discovery),
        ports=watch.ports(server),
        sockets=tuple(sorted(str(path) for path in found if path.name in _OWN_SOCKETS)),
        audio=str(recordings.path("hello")),
    )


@contextlib.contextmanager
def running() -> Iterator[Graph]:
    """Start the graph; it is gone with all that it had when the block ends."""
    # Short: the path of a Unix socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        keys, entries = {}, []
        for tenant in _TENANTS:
            keys[tenant], entry = new_key(tenant)
            more = {"enabled": False} if tenant == "withdrawn-tenant" else {}
            entries.append(entry.model_dump(exclude_defaults=True, mode="json") | more)
        file = folder / "keys.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump({"keys": entries}))
        with serving(
            f"--Frontend.api_keys_file={file}",
            *AS_DELIVERED,
            environment={"TMPDIR": str(folder / "tmp")},
        ) as server:
            yield Graph(server, keys, folder / "tmp")
