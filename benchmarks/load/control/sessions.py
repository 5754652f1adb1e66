"""Measures the sessions per core of frontend and processor.

Sessions send 20 ms packets with voice activity detection on. The result is computed from the
CPU seconds of the two processes, and compared with the cost of a bare echo of the same packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx
import psutil

from auricle_testing.server import free_port
from benchmarks.baselines.client import ROOT, end
from benchmarks.load.control import echo
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.trial import Load, run_trial
from benchmarks.load.usage import measured

ENCODE_MS, DECODE_MS = 5.0, 40.0  # typical of a GPU
_STYLE = SpeechStyle((20.0, 60.0))
_READY_SECONDS = 300.0
# Figures by the library of the bare echo.
ECHOES = {"websockets": "control_cost_vs_echo", "picows": "control_cost_vs_picows"}


@contextlib.contextmanager
def control_plane(*overrides: str) -> Iterator[tuple[str, dict[str, psutil.Process]]]:
    """Yield address and processes of a real frontend and processor with simulated workers."""
    with frontends(1, processor=overrides) as (urls, processes):
        yield urls[0], processes


@contextlib.contextmanager
def frontends(
    count: int, processor: Sequence[str] = (), frontend: Sequence[str] = ()
) -> Iterator[tuple[list[str], dict[str, psutil.Process]]]:
    """The same with several frontends, whose addresses it yields; further settings for each."""
    port = free_port()  # the next ones are free, too
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DYN_LOG": "warn"}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:

        def start(*command: str) -> psutil.Process:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environment,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(end, process)
            return psutil.Process(process.pid)

        common = ("-f", "configs/demo.yaml", f"--Common.discovery_path={directory}")
        workers = "benchmarks.load.control.workers"
        for name, milliseconds in (("EncodeWorker", ENCODE_MS), ("PdWorker", DECODE_MS)):
            start(workers, name, f"--milliseconds={milliseconds}", *common)
        component = ("auricle", "component")
        most = ("--Processor.max_sessions=1000", "--Processor.admission=fixed")
        processes = {"Processor": start(*component, "Processor", *common, *most, *processor)}
        settings = ("--Frontend.max_sessions=1000", *frontend)
        for n in range(count):
            processes["Frontend" + f"-{n + 1}" * (n > 0)] = start(
                *component, "Frontend", *common, f"--Frontend.port={port + n}", *settings
            )
        urls = [f"http://127.0.0.1:{port + n}" for n in range(count)]
        for url in urls:
            _wait(url)
        yield urls, processes


def _wait(url: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", timeout=5.0).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError("the control plane did not become ready")


@dataclass(frozen=True)
class Row:
    """Sessions per core by process, and client figures; or why they are invalid."""

    invalid: str
    figures: dict[str, float]


def measure(counts: Sequence[int], seconds: float, packet_ms: int = 20) -> dict[int, Row]:
    """Measure each number of sessions."""
    rows: dict[int, Row] = {}
    with control_plane() as (url, processes):
        target = Target(url, "demo")
        session = protocol("stream")
        asyncio.run(run_trial(Load(4, 8.0), Planner(SpeechStyle((3.0, 5.0)), 0), session, target))
        for count in counts:
            with contextlib.ExitStack() as stack:
                usages = {
                    name: stack.enter_context(measured(process, memory_every=1e9))
                    for name, process in processes.items()
                }
                load = Load(count, seconds, packet_ms, Slo())
                trial = asyncio.run(run_trial(load, Planner(_STYLE, count), session, target))
            cores = {n: u.total_cpu_seconds / u.seconds for n, u in usages.items()}
            # During the ramp fewer than `count` sessions are open.
            average = trial.open_seconds / trial.seconds
            found = {
                "sessions_per_core": average / sum(cores.values()),
                "sessions_open": average,
                **{f"cores_{name.lower()}": value for name, value in cores.items()},
                **trial.figures(),
            }
            # No session need have ended: only the cost of open sessions counts.
            rows[count] = Row(trial.lateness, found)
    return rows


def compared_with_echoes(
    row: Row, count: int, seconds: float, packet_ms: int = 20
) -> dict[str, Row]:
    """Return, for each echo that is installed, our cost per session divided by its cost.

    `row` was just measured with `count` sessions: the state of the machine must be the same.
    """
    found: dict[str, Row] = {}
    for server, figure in ECHOES.items():
        if echo.available(server):
            load = Load(count, seconds, packet_ms, Slo())
            invalid, cost = echo.cost(server, load, _STYLE, count)
            ours = 1 / row.figures["sessions_per_core"]
            found[figure] = Row(row.invalid or invalid, {figure: ours / cost})
    return found
