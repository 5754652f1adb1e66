"""What the graph's processes hold, say and answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from auricle_testing.server import Server
from benchmarks.hostile.attackers.target import Port
from benchmarks.hostile.attackers.wire import ANSWER_SECONDS

_MIB = 1 << 20
_PROBE_SECONDS = 0.25
# Signs of a failure in the graph's log, whoever wrote it: Python, Dynamo's Rust, the launcher.
_FAILURE = re.compile(
    r"Traceback|\bERROR\b|\bCRITICAL\b|panicked|Segmentation|core dumped|unexpected error"
    r"|never awaited|Task exception|restart|ended with|died"
)
_TRANSPORT = re.compile(r"ERROR (_core: Failed to send|.*dynamo_runtime::pipeline::network)")
_COMPONENTS = (
    *("Frontend", "Processor", "EncodeWorker", "PdWorker", "TranslateWorker", "Planner"),
)


@dataclass(frozen=True)
class Held:
    """What one component's processes hold together: MiB resident, descriptors, processes."""

    memory_mib: float
    descriptors: int
    processes: int
    pids: tuple[int, ...]


@dataclass(frozen=True)
class Footprint:
    """What the whole graph holds; `files` are those below its temporary folder."""

    components: dict[str, Held]
    files: frozenset[str]


def footprint(server: Server, folder: Path) -> Footprint:
    """Look at every process of the graph now."""
    held: dict[str, list[psutil.Process]] = {}
    for process in server.processes():
        held.setdefault(_component(process), []).append(process)
    files = frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return Footprint({name: _held(processes) for name, processes in held.items()}, files)


def _component(process: psutil.Process) -> str:
    """The component that a process belongs to, itself or by its parents; else the launcher."""
    for one in (process, *_parents(process)):
        with contextlib.suppress(psutil.Error):
            words = one.cmdline()
            if "component" in words:
                return next((word for word in words if word in _COMPONENTS), "launcher")
    return "launcher"


def _parents(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.parents()
    except psutil.Error:
        return []


def _held(processes: list[psutil.Process]) -> Held:
    memory, descriptors, pids = 0.0, 0, []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            memory += process.memory_info().rss / _MIB
            descriptors += process.num_fds()
            pids.append(process.pid)
    return Held(memory, descriptors, len(pids), tuple(sorted(pids)))


def ports(server: Server) -> tuple[Port, ...]:
    """Every TCP port of the graph that takes connections, but the frontend's own.

    vLLM's engine accepts no connections: `workers/pd/vllm/process.py`.
    """
    public = httpx.URL(server.url).port
    systems = set(server.system_ports.values())
    found = {}
    for process in server.processes():
        with contextlib.suppress(psutil.Error):
            if "EngineCore" in process.name():
                continue
            for one in process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN and one.laddr.port != public:
                    bound, number = one.laddr.ip, one.laddr.port
                    host = bound if bound not in ("0.0.0.0", "::") else "127.0.0.1"
                    system = number in systems
                    found[bound, number] = Port(_component(process), host, bound, number, system)
    return tuple(found.values())


class Log:
    """The graph's log from one moment to the next."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = len(lines)

    def since(self) -> list[str]:
        """The lines since the last call."""
        start, self._at = self._at, len(self._lines)
        return self._lines[start : self._at]


def failures(lines: list[str]) -> list[str]:
    """Those lines that tell of a failure: not those in which Dynamo's transport tells of a peer
    that sent nonsense or left."""
    return [line for line in lines if _FAILURE.search(line) and not _TRANSPORT.search(line)]


class Alive:
    """Asks /live again and again; `worst` is the longest answer in seconds so far."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/live"
        self.worst = 0.0
        self.failures: list[str] = []

    async def run(self) -> None:
        """Ask until cancelled."""
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
            while True:
                began = time.monotonic()
                try:
                    answer = await client.get(self._url)
                    if answer.status_code != 200:
                        self.failures.append(f"/live answered {answer.status_code}")
                except httpx.TimeoutException:
                    self.failures.append(f"/live did not answer for {ANSWER_SECONDS:g} s")
                except httpx.HTTPError as error:
                    self.failures.append(f"/live: {error!r}")
                self.worst = max(self.worst, time.monotonic() - began)
                await asyncio.sleep(_PROBE_SECONDS)
