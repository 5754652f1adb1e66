"""The attacked graph, with a translator, API keys and a folder; its resources, ports and log."""

from __future__ import annotations

import contextlib
import re
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import yaml
from msgspec.structs import replace

from auricle.frontend.transport.access.keys import new_key
from auricle_testing import recordings
from auricle_testing.replicas import is_engine
from auricle_testing.server import AS_DELIVERED, ROOT, Server, free_port, serving
from auricle_testing.services import Nats
from benchmarks.hostile.attackers.wire import MOST_JOBS, Port, Target

_TRANSLATOR = ROOT / "models/demo-translate"
_WITHDRAWN = "withdrawn-tenant"
# The least that the largest upload allows, so that an attacker can fill it.
_STORED_BYTES = 1 << 30
_TENANTS = ("witness", "attacker", "newcomer", _WITHDRAWN)
# Sockets of every process. The decoding processes' own server is left out: see NOTES.md.
_SOCKETS = ("launcher.sock", "control", "pubsub", "stats")


@dataclass(frozen=True)
class Graph:
    """A running graph, its tenants' keys, and the folder that is its TMPDIR."""

    server: Server
    keys: dict[str, str]
    folder: Path
    ports: dict[str, int]
    nats: str

    def target(self) -> Target:
        """An attacker's knowledge of it now."""
        found = target_of(self.server, self.keys, self.folder, self.ports)
        return replace(found, nats=self.nats, stored_bytes=_STORED_BYTES)


def target_of(
    server: Server,
    keys: dict[str, str],
    folder: Path | None = None,
    ports: dict[str, int] | None = None,
) -> Target:
    """An attacker's knowledge of a running graph, which needs no keys if there are none.

    Sockets in `folder` are attacked, too. `ports` are the `frontend_ports`, if there are any.
    """
    ports, url = ports or {}, httpx.URL(server.url)
    found = [path for path in folder.rglob("*") if path.is_socket()] if folder else []
    authorization = {"Authorization": f"Bearer {keys['attacker']}"} if keys else {}
    models = httpx.get(f"{server.url}/v1/models", headers=authorization, timeout=30.0).json()
    return Target(
        host=url.host,
        port=url.port or 80,
        key=keys.get("attacker", ""),
        newcomer=keys.get("newcomer", ""),
        withdrawn=keys.get(_WITHDRAWN, ""),
        model=models["data"][0]["id"],
        discovery=str(server.discovery),
        ports=(
            *(one for one in ports_inside(server) if one.number not in ports.values()),
            *(Port(path=str(path)) for path in sorted(found) if path.name in _SOCKETS),
        ),
        audio=str(recordings.path("hello")),
        **ports,
    )


def frontend_ports() -> dict[str, int]:
    """Ports for the protocols that have one of their own, by the setting's name."""
    return {name: free_port() for name in ("wyoming_port", "audiosocket_port", "grpc_port")}


@contextlib.contextmanager
def running(config: str) -> Iterator[Graph]:
    """Start the graph, and remove all that it had when the block ends."""
    # Short: the path of a Unix socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        keys, entries = {}, []
        for tenant in _TENANTS:
            keys[tenant], entry = new_key(tenant)
            more = {"enabled": False} if tenant == _WITHDRAWN else {}
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
                "--Frontend.allowed_hosts=[auricle.example]",
                f"--Frontend.max_stored_upload_bytes={_STORED_BYTES}",
                f"--Frontend.jobs_folder={folder / 'jobs'}",
                f"--Frontend.max_jobs={MOST_JOBS}",
                f"--Frontend.nats_server={nats.address}",  # receives the text of telephone calls
                *(f"--Frontend.{name}={port}" for name, port in ports.items()),
                f"--Common.translate_model={_TRANSLATOR}",
                *AS_DELIVERED,
                graph="graphs.e_pd_translate:Frontend",
                config=config,
                environment={"TMPDIR": str(folder / "tmp")},
            ) as server:
                yield Graph(server, keys, folder / "tmp", ports, nats.address)
        finally:
            nats.end(signal.SIGTERM)


# Resources, ports and log of its processes.
_MIB = 1 << 20
# Signs of a failure in the log, of Python, Dynamo's Rust or the launcher.
_FAILURE = re.compile(
    r"Traceback|\bERROR\b|\bCRITICAL\b|panicked|Segmentation|core dumped|unexpected error"
    r"|never awaited|Task exception|restart|ended with|died"
)
_TRANSPORT = re.compile(r"ERROR (_core: Failed to send|.*dynamo_runtime::pipeline::network)")
COMPONENTS = ("Frontend", "Processor", "EncodeWorker", "PdWorker", "TranslateWorker", "Planner")


@dataclass(frozen=True)
class Held:
    """The resources of a component's processes together: MiB resident, descriptors, processes."""

    memory_mib: float
    descriptors: int
    processes: int


@dataclass(frozen=True)
class Footprint:
    """The resources of each component, the files below the graph's temporary folder, and the
    process id of each component."""

    components: dict[str, Held]
    files: frozenset[str]
    pids: dict[str, int]


def footprint(server: Server, folder: Path) -> Footprint:
    """Inspect every process of the graph now."""
    held: dict[str, list[psutil.Process]] = {}
    for process in server.processes():
        held.setdefault(_component(process), []).append(process)
    pids = {}
    for name in COMPONENTS:
        with contextlib.suppress(LookupError):
            pids[name] = server.component(name).pid
    files = frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return Footprint({name: _held(processes) for name, processes in held.items()}, files, pids)


def _component(process: psutil.Process) -> str:
    """The component of a process, or of a parent; the launcher for others."""
    with contextlib.suppress(psutil.Error):
        for one in (process, *process.parents()):
            words = one.cmdline()
            if "component" in words:
                return next((word for word in words if word in COMPONENTS), "launcher")
    return "launcher"


def _held(processes: list[psutil.Process]) -> Held:
    memory, descriptors, count = 0.0, 0, 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            memory += process.memory_info().rss / _MIB
            descriptors += process.num_fds()
            count += 1
    return Held(memory, descriptors, count)


def ports_inside(server: Server) -> tuple[Port, ...]:
    """Every TCP port of the graph that accepts connections, except the frontend's own.

    Engines accept none: `auricle/process/engine_process.py`.
    """
    public = httpx.URL(server.url).port
    systems = set(server.system_ports.values())
    found = {}
    for process in server.processes():
        with contextlib.suppress(psutil.Error):
            if is_engine(process):
                continue
            for one in process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN and one.laddr.port != public:
                    bound, number = one.laddr.ip, one.laddr.port
                    host = bound if bound not in ("0.0.0.0", "::") else "127.0.0.1"
                    system = number in systems
                    found[bound, number] = Port(_component(process), host, bound, number, system)
    return tuple(found.values())


class Log:
    """The graph's log, from one call of `since` to the next."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = len(lines)

    def since(self) -> list[str]:
        """The lines since the last call."""
        start, self._at = self._at, len(self._lines)
        return self._lines[start : self._at]


def failures(lines: list[str]) -> list[str]:
    """The lines that report a failure, except lines of Dynamo's transport about its peers."""
    return [line for line in lines if _FAILURE.search(line) and not _TRANSPORT.search(line)]
