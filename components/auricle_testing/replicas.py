"""The replicas of a component, which of them is in use, and the process of its engine."""

from __future__ import annotations

import contextlib
import re

import httpx
import psutil

from auricle_testing.scraping import total
from auricle_testing.server import Server

# The metric of a replica that changes while a session uses it.
_USED = {
    "EncodeWorker": "auricle_encode_worker_windows_encoded_total",
    "PdWorker": "auricle_pd_worker_decodes_total",
    "Processor": "auricle_processor_sessions",
}
# By engine with a process of its own: a part of the process's title.
ENGINE_PROCESSES = {"vllm": "EngineCore", "sglang": "SGLang"}


def is_engine(process: psutil.Process) -> bool:
    """Whether it is the process of an engine. False if it has just ended."""
    with contextlib.suppress(psutil.Error):
        title = " ".join([process.name(), *process.cmdline()])
        return any(name in title for name in ENGINE_PROCESSES.values())
    return False


def engine_of(worker: psutil.Process) -> psutil.Process:
    """The process of a worker's engine. Raises LookupError if there is none."""
    for process in worker.children(recursive=True):
        if is_engine(process):
            return process
    raise LookupError(f"process {worker.pid} has no process of an engine")


def replicas(server: Server, component: str) -> dict[int, psutil.Process]:
    """The processes of a component, by system port."""
    found = {}
    for process in server.processes():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if "component" in command and component in command:
                # The first option is the port of all replicas; a further replica's own port comes
                # last.
                ports = re.findall(rf"--{component}\.system_port=(\d+)", " ".join(command))
                found[int(ports[-1])] = process
    return found


def used(port: int, component: str) -> float:
    """The value of the replica's metric: its past or present use."""
    return total(f"http://127.0.0.1:{port}", _USED[component])


class InUse:
    """Finds the replica of a component that has been used most since this object was created."""

    def __init__(self, server: Server, component: str) -> None:
        self._server = server
        self._component = component
        # The processors' metric is a gauge; the others are counters.
        counting = component != "Processor"
        ports = replicas(server, component) if counting else ()
        self._before = {port: _used_or_nothing(port, component) for port in ports}

    def replica(self) -> psutil.Process:
        """Its process. Raises LookupError if there is none."""
        found = replicas(self._server, self._component)
        if not found:
            raise LookupError(f"no process of {self._component}")
        return found[max(found, key=self._since)]

    def _since(self, port: int) -> float:
        return _used_or_nothing(port, self._component) - self._before.get(port, 0.0)


def _used_or_nothing(port: int, component: str) -> float:
    """0 for a replica that does not answer: it cannot be in use."""
    try:
        return used(port, component)
    except httpx.HTTPError:
        return 0.0
