"""Live clients of a bare echo (see `echo_server.py`), and their cost there.

The cost of frontend and processor relative to it can be compared between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import websockets

from auricle.audio.pcm import Int16
from auricle_testing.server import free_port
from benchmarks.baselines.client import PYTHON, ROOT, end
from benchmarks.load.pacing import send_paced
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target
from benchmarks.load.protocols.socket import OPEN_SECONDS, connected
from benchmarks.load.record import Failed, Record
from benchmarks.load.trial import Load, run_trial
from benchmarks.load.usage import measured
from models.training.corpus import SAMPLE_RATE

_LAST_SECONDS = 30.0
_READY_SECONDS = 60.0


def cost(server: str, load: Load, style: SpeechStyle, seed: int) -> tuple[str, float]:
    """Return why the load was invalid, and the server's CPU seconds per session and second.

    Raises RuntimeError if the server does not start.
    """
    with _serving(server) as (url, process), measured(process, memory_every=1e9) as usage:
        trial = asyncio.run(run_trial(load, Planner(style, seed), run, Target(url, "")))
    return trial.lateness, usage.total_cpu_seconds / trial.open_seconds


def available(server: str) -> bool:
    """Whether its library is installed."""
    command = [_python(server), "-c", f"import {server}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def _python(server: str) -> str:
    return str(PYTHON) if server == "picows" and PYTHON.exists() else sys.executable


@contextlib.contextmanager
def _serving(server: str) -> Iterator[tuple[str, psutil.Process]]:
    port = free_port()
    module = "benchmarks.load.control.echo_server"
    process = subprocess.Popen(
        [_python(server), "-m", module, server, f"--port={port}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        _wait(port, process)
        yield f"http://127.0.0.1:{port}/", psutil.Process(process.pid)
    finally:
        end(process)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise RuntimeError("the echo did not start")


async def run(target: Target, record: Record) -> None:
    """Run one session: send all packets, and receive each one back."""
    async with connected(target.url) as client:
        packets = -(-len(record.plan.pcm) // round(record.packet_seconds * SAMPLE_RATE))
        async with asyncio.timeout(OPEN_SECONDS + record.plan.seconds + _LAST_SECONDS):
            hearing = asyncio.create_task(_hear(client, packets))
            try:
                await send_paced(record, lambda pcm: _send(client, pcm))
                record.stopped_at = time.monotonic()
                await hearing
            except (websockets.ConnectionClosed, TimeoutError) as error:
                raise Failed(f"the echo ended: {error}") from None
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
    record.finished_at = time.monotonic()


async def _send(client: websockets.ClientConnection, pcm: Int16) -> None:
    await client.send(pcm.tobytes())


async def _hear(client: websockets.ClientConnection, packets: int) -> None:
    for _ in range(packets):
        await client.recv()
