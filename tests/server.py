"""Starts the real graph as a user would, and makes sure nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parent.parent
READY_SECONDS = 180.0
STOP_SECONDS = 60.0
_MARK = "AURICLE_TEST_RUN"
_READY = re.compile(r"auricle ready at (\S+)")


def free_port() -> int:
    """A port below 32768 (Dynamo's limit) that nobody listens on now."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Server:
    """A running `auricle serve`; `system_ports` serve the workers' /metrics."""

    process: subprocess.Popen[str]
    url: str
    discovery: Path
    system_ports: dict[str, int]
    seconds_to_ready: float
    log: list[str] = field(default_factory=list)

    def metric(self, component: str, name: str, **labels: str) -> float:
        """Sum of a metric's samples; components other than Frontend on their system port."""
        port = self.system_ports.get(component)
        address = f"http://127.0.0.1:{port}/metrics" if port else f"{self.url}/metrics"
        total = 0.0
        for line in httpx.get(address, timeout=10.0).text.splitlines():
            if re.match(rf"{name}(\{{|\s)", line) and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def processes(self) -> list[psutil.Process]:
        """The launcher and everything below it."""
        launcher = psutil.Process(self.process.pid)
        return [launcher, *launcher.children(recursive=True)]

    def component(self, name: str) -> psutil.Process:
        """The process of one component."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                command = process.cmdline()
                if "component" in command and name in command:
                    return process
        raise LookupError(f"no process of {name}")


@contextlib.contextmanager
def serving(
    *overrides: str,
    graph: str = "graphs.e_pd:Frontend",
    config: str = "configs/demo.yaml",
    environment: dict[str, str] | None = None,
) -> Iterator[Server]:
    """`auricle serve` until the block ends; fails if anything is left."""
    discovery = Path(tempfile.mkdtemp(prefix="auricle-test-"))
    ports = {name: free_port() for name in ("Processor", "EncodeWorker", "PdWorker")}
    command = [
        *(sys.executable, "-m", "auricle", "serve", graph, "-f", config),
        "--Frontend.port=0",
        f"--Common.discovery_path={discovery}",
        *(f"--{name}.system_port={port}" for name, port in ports.items()),
        *overrides,
    ]
    began = time.monotonic()
    with leaving_nothing() as marked:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=marked | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        log: list[str] = []
        threading.Thread(target=_read, args=(process, lines, log), daemon=True).start()
        url = _wait_for_url(process, lines, log)
        yield Server(process, url, discovery, ports, time.monotonic() - began, log)
        _stop(process)
        records = [p for p in discovery.rglob("*") if p.is_file()]
        assert not records, f"stale discovery records: {records}"


@contextlib.contextmanager
def leaving_nothing() -> Iterator[dict[str, str]]:
    """An environment whose processes must all have ended when the block ends.

    They are found by a mark in their environment, wherever they hang in the
    process tree by then, and killed in any case.
    """
    mark = uuid.uuid4().hex
    try:
        yield os.environ | {_MARK: mark}
        _, alive = psutil.wait_procs(_marked(mark), timeout=5.0)
        assert not alive, f"left running: {alive}"
    finally:
        for left in _marked(mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str], log: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        log.append(line.rstrip())
        lines.put(line)


def _wait_for_url(process: subprocess.Popen[str], lines: queue.Queue[str], log: list[str]) -> str:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            if found := _READY.search(lines.get(timeout=0.5)):
                return found.group(1)
        if process.poll() is not None:
            break
    raise AssertionError("the server did not become ready:\n" + "\n".join(log[-60:]))


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS) == 0, "the launcher did not end cleanly"


def _marked(mark: str) -> list[psutil.Process]:
    """Every process of this run, wherever it hangs in the process tree by now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                found.append(process)
    return found


async def eventually(condition: Callable[[], bool], seconds: float) -> None:
    """Until another process shows `condition`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        await asyncio.sleep(0.1)
