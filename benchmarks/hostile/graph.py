"""The graph under attack: with a translator, API keys and a temporary folder of its own."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from auricle.frontend.transport.access.keys import new_key
from auricle_testing import recordings
from auricle_testing.server import AS_DELIVERED, ROOT, Server, free_port, serving
from auricle_testing.services import Nats
from benchmarks.hostile import watch
from benchmarks.hostile.attackers.target import Target

_TRANSLATOR = ROOT / "models/demo-translate"
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
    ports: dict[str, int]

    def target(self) -> Target:
        """What an attacker may know of it now."""
        return target_of(self.server, self.keys, self.folder, self.ports)


def target_of(
    server: Server,
    keys: dict[str, str],
    folder: Path | None = None,
    ports: dict[str, int] | None = None,
) -> Target:
    """What an attacker may know of a running graph now; without keys none are needed.

    `folder` is where its processes have their sockets, if they are to be attacked. `ports` are
    those of `frontend_ports`, if it has them.
    """
    ports = ports or {}
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
        ports=tuple(one for one in watch.ports(server) if one.number not in ports.values()),
        sockets=tuple(sorted(str(path) for path in found if path.name in _OWN_SOCKETS)),
        audio=str(recordings.path("hello")),
        **ports,
    )


def frontend_ports() -> dict[str, int]:
    """Ports for the protocols that have one of their own, by the setting's name."""
    return {name: free_port() for name in ("wyoming_port", "audiosocket_port", "grpc_port")}


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
        ports, nats = frontend_ports(), Nats(folder)
        nats.start()
        try:
            with serving(
                f"--Frontend.api_keys_file={file}",
                "--Frontend.keyless_tenant=attacker",
                # Where the text of telephone calls goes.
                f"--Frontend.nats_server={nats.address}",
                *(f"--Frontend.{name}={port}" for name, port in ports.items()),
                f"--Common.translate_model={_TRANSLATOR}",
                *AS_DELIVERED,
                graph="graphs.e_pd_translate:Frontend",
                environment={"TMPDIR": str(folder / "tmp")},
            ) as server:
                yield Graph(server, keys, folder / "tmp", ports)
        finally:
            nats.end(signal.SIGTERM)
