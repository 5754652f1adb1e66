"""Starts the real graph as a user would, and verifies that it leaves nothing behind."""

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

import psutil

from auricle_testing.scraping import scraped, values

ROOT = Path(__file__).parents[2]
READY_SECONDS = 300.0
STOP_SECONDS = 150.0
# An upper bound: on a busy machine a killed process may take seconds to disappear.
_GONE_SECONDS = 60.0
# An upper bound; an idle machine answers at once.
ANSWER_SECONDS = 60.0
_MARK = "AURICLE_TEST_RUN"
# Tests of the graph do not examine load: on a busy machine a single session may exceed the target,
# which changes its cadence or another session's.
UNHURRIED = ("--Processor.target_chunk_ms=30000", "--Processor.admission=fixed")
# For measurements of what users get: the values of configs/demo.yaml and the defaults.
AS_DELIVERED = ("--Processor.target_chunk_ms=300", "--Processor.admission=learnt")
# Any test of a graph can run with another engine, except tests of vLLM's processes.
_OTHER_ENGINE = os.environ.get("AURICLE_TEST_ENGINE")
_ENGINE = (f"--PdWorker.engine={_OTHER_ENGINE}",) if _OTHER_ENGINE else ()
# For graphs whose tests do not depend on decoding: a PD worker without vLLM starts with a fraction
# of the work. `AURICLE_TEST_ENGINE=vllm` makes them use vLLM, too.
LIGHT_ENGINE = () if _OTHER_ENGINE else ("--PdWorker.engine=transformers",)
_READY = re.compile(r'auricle ready at ([^\s"]+)')
_LISTENING = re.compile(r'AURICLE_STATUS listening at ([^\s"]+)')
_JOINED = re.compile("AURICLE_STATUS (ready)")


# A component's replicas use consecutive ports, from the first one's.
_REPLICAS = 4
_given_out: set[int] = set()


def free_port() -> int:
    """A port below 32768 (Dynamo's limit) that is free now, like the three ports after it.

    Each port is returned once, and pytest's processes never share one: the caller's server may
    listen many seconds later.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    while True:
        port = random.randrange(20_000, 32_000, _REPLICAS)
        if port // _REPLICAS % 4 != worker % 4 or port in _given_out:
            continue
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for number in range(port, port + _REPLICAS):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", number))
            _given_out.add(port)
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
    reading: threading.Thread | None = None

    def last_words(self) -> None:
        """Wait until `log` has the last line of a process that has ended."""
        assert self.reading is not None
        self.reading.join(ANSWER_SECONDS)
        assert not self.reading.is_alive(), "a process still holds its output"

    def metric(self, component: str, name: str, **labels: str) -> float:
        """Sum of a metric's samples; components but Frontend export it on their system port."""
        return self.metrics(component, name, **labels)[0]

    def metrics(self, component: str, *names: str, **labels: str) -> list[float]:
        """Several metrics from one scrape, each as `metric` returns it."""
        port = self.system_ports.get(component)
        found = scraped(f"http://127.0.0.1:{port}" if port else self.url)
        return [sum(values(found, name, **labels)) for name in names]

    def processes(self) -> list[psutil.Process]:
        """The launcher and all of its descendants."""
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

    def listening(self, name: str, port: int) -> psutil.Process:
        """The process of a component that listens on a port."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if name in process.cmdline() and any(
                    c.laddr.port == port and c.status == psutil.CONN_LISTEN
                    for c in process.net_connections("tcp")
                ):
                    return process
        raise LookupError(f"no process of {name} listens on port {port}")


@contextlib.contextmanager
def serving(
    *overrides: str,
    graph: str = "graphs.e_pd:Frontend",
    config: str = "configs/demo.yaml",
    environment: dict[str, str] | None = None,
    discovery: Path | None = None,
) -> Iterator[Server]:
    """`auricle serve` until the block ends; fails if it leaves anything behind.

    Without `discovery`, the graph has a temporary discovery folder of its own.
    """
    discovery = discovery or Path(tempfile.mkdtemp(prefix="auricle-test-"))
    ports = {name: free_port() for name in ("Processor", "EncodeWorker", "PdWorker")}
    command = [
        *(sys.executable, "-m", "auricle", "serve", graph, "-f", config),
        "--Frontend.port=0",
        f"--Common.discovery_path={discovery}",
        *(f"--{name}.system_port={port}" for name, port in ports.items()),
        *UNHURRIED,
        *_ENGINE,
        *overrides,
    ]
    began = time.monotonic()
    with leaving_nothing() as marked:
        log: list[str] = []
        process, url, reading = _started(command, marked | (environment or {}), log, _READY)
        yield Server(process, url, discovery, ports, time.monotonic() - began, log, reading)
        _stop(process)
        # The secret remains, for processes that join later, and so does the event relay's lock.
        records = [p for p in discovery.rglob("[!.]*") if p.is_file()]
        assert not records, f"stale discovery records: {records}"


@contextlib.contextmanager
def frontend_beside(
    server: Server, *overrides: str, config: str = "configs/demo.yaml"
) -> Iterator[Server]:
    """One more frontend of a running graph, with settings of its own, until the block ends.

    Tests of a frontend alone need no graph of their own. `metric` of the workers is the graph's.
    """
    with component_beside(server, "Frontend", *overrides, config=config) as frontend:
        yield frontend


@contextlib.contextmanager
def component_beside(
    server: Server,
    component: str,
    *overrides: str,
    config: str = "configs/demo.yaml",
    wires: tuple[int, int] | None = None,
) -> Iterator[Server]:
    """One more process of a running graph, with settings of its own, until the block ends.

    With `wires` it accepts these versions of the wire, from the first to the second, and sends
    requests of the second.
    """
    program = ["auricle"] if wires is None else ["auricle_testing.other_release", *map(str, wires)]
    ports = server.system_ports
    if component == "Frontend":
        overrides = ("--Frontend.port=0", *overrides)
    else:
        ports = ports | {component: free_port()}
        overrides = (f"--{component}.system_port={ports[component]}", *overrides)
    command = [
        *(sys.executable, "-m", *program, "component", component, "-f", config),
        f"--Common.discovery_path={server.discovery}",
        *overrides,
    ]
    began = time.monotonic()
    with leaving_nothing() as marked:
        log: list[str] = []
        supervised = marked | {"AURICLE_SUPERVISED": "1", "PYTHONUNBUFFERED": "1"}
        pattern = _LISTENING if component == "Frontend" else _JOINED
        process, url, reading = _started(command, supervised, log, pattern)
        seconds = time.monotonic() - began
        yield Server(process, url, server.discovery, ports, seconds, log, reading)
        _stop(process)


@contextlib.contextmanager
def leaving_nothing() -> Iterator[dict[str, str]]:
    """An environment whose processes must all have ended when the block ends.

    A mark in their environment identifies them anywhere in the process tree. They are killed in any
    case.
    """
    mark = uuid.uuid4().hex
    try:
        yield os.environ | {_MARK: mark}
        _, alive = psutil.wait_procs(_marked(mark), timeout=_GONE_SECONDS)
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


def _started(
    command: list[str], environment: dict[str, str], log: list[str], pattern: re.Pattern[str]
) -> tuple[subprocess.Popen[str], str, threading.Thread]:
    """The process, the address that it reports, and the thread that reads its output."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    reading = threading.Thread(target=_read, args=(process, lines, log), daemon=True)
    reading.start()
    return process, _wait_for_url(process, lines, log, pattern), reading


def _wait_for_url(
    process: subprocess.Popen[str],
    lines: queue.Queue[str],
    log: list[str],
    pattern: re.Pattern[str],
) -> str:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            if found := pattern.search(lines.get(timeout=0.5)):
                return found.group(1)
        if process.poll() is not None:
            break
    raise AssertionError("the server did not become ready:\n" + "\n".join(log[-60:]))


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS) == 0, "the launcher did not end cleanly"


def _marked(mark: str) -> list[psutil.Process]:
    """Every process of this run, anywhere in the process tree."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                found.append(process)
    return found


async def eventually(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until another process fulfils `condition`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        await asyncio.sleep(0.1)
