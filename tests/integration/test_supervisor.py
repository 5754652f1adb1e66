"""The launcher with small processes of its own: order, restarts, and nothing left behind."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from auricle.launcher.status import StatusBoard
from auricle.launcher.supervisor import Process, StartFailed, Supervisor

pytestmark = pytest.mark.integration


def process(name: str, script: str, number: int = 1) -> Process:
    code = "import os, sys, time, signal\n" + textwrap.dedent(script)
    shown = name if number == 1 else f"{name}-{number}"
    command = [sys.executable, "-u", "-c", code]
    return Process(shown, name, command, {"AURICLE_SUPERVISED": "1"}, number, drain_seconds=20)


class Scripts:
    """Makes more of the processes a run was started with."""

    def __init__(self, scripts: dict[str, str]) -> None:
        self._scripts = scripts

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(self._scripts)

    def make(self, component: str, number: int) -> Process:
        return process(component, self._scripts[component], number)


READY = "print('AURICLE_STATUS ready')\ntime.sleep(600)\n"


class Run:
    """A supervisor over some processes, run until a step of the test stops it."""

    def __init__(self, *processes: Process, scripts: dict[str, str] | None = None) -> None:
        self._before = set(psutil.Process().children())  # a server shared by other tests
        self.output = io.StringIO()
        board = StatusBoard([p.name for p in processes], Console(file=self.output), quiet=False)
        self.statuses: list[tuple[str, str]] = []
        self.changed = asyncio.Event()
        self.supervisor = Supervisor(list(processes), Scripts(scripts or {}), board, self._heard)

    def _heard(self, process: Process, status: str) -> None:
        self.statuses.append((process.name, status))
        self.changed.set()

    def children(self) -> list[psutil.Process]:
        """Processes started since."""
        return [c for c in psutil.Process().children() if c not in self._before]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await self.changed.wait()
                self.changed.clear()


async def test_callees_are_ready_before_callers_start_and_all_end() -> None:
    run = Run(process("worker", READY), process("front", READY))
    ready = asyncio.Event()
    running = asyncio.create_task(run.supervisor.run([["worker"], ["front"]], ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
    assert run.statuses == [("worker", "ready"), ("front", "ready")]
    children = run.children()
    assert len(children) == 2
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert not [c for c in children if c.is_running() and c.status() != psutil.STATUS_ZOMBIE]


async def test_a_crashed_process_is_started_again(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    script = f"""
        first = not os.path.exists({str(marker)!r})
        open({str(marker)!r}, "w").close()
        print("AURICLE_STATUS ready")
        time.sleep(0.5 if first else 600)
        sys.exit(3)
    """
    run = Run(process("fragile", script))
    running = asyncio.create_task(run.supervisor.run([["fragile"]], lambda: None))
    await run.until(lambda: len(run.statuses) == 2)
    run.supervisor.stop()
    await running
    assert "starting again in 1 s" in run.output.getvalue()


async def test_a_process_that_cannot_start_is_an_error_with_its_log() -> None:
    run = Run(process("broken", "print('no such checkpoint')\nsys.exit(1)"))
    with pytest.raises(StartFailed, match="broken ended before it was ready"):
        await run.supervisor.run([["broken"]], lambda: None)
    assert "no such checkpoint" in run.output.getvalue()


async def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle.launcher.supervisor._STOP_SECONDS", 1.0)
    stubborn = process("stubborn", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY)
    run = Run(stubborn)
    ready = asyncio.Event()
    running = asyncio.create_task(run.supervisor.run([["stubborn"]], ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
    (child,) = run.children()
    run.supervisor.stop()
    async with asyncio.timeout(15):
        await running
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


DRAINS = (
    """
signal.signal(signal.SIGTERM, lambda *_: (print("AURICLE_STATUS draining"), sys.exit(0)))
signal.signal(signal.SIGINT, lambda *_: (print("AURICLE_STATUS stopped"), sys.exit(0)))
"""
    + READY
)


async def test_a_component_is_scaled_up_and_down_while_it_runs() -> None:
    run = Run(process("worker", DRAINS), scripts={"worker": DRAINS})
    ready = asyncio.Event()
    running = asyncio.create_task(run.supervisor.run([["worker"]], ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
    supervisor = run.supervisor
    await supervisor.scale("worker", 3)
    assert supervisor.counts()["worker"]["replicas"] == 3
    await run.until(lambda: supervisor.counts()["worker"]["ready"] == 3)
    assert [name for name, _ in run.statuses] == ["worker", "worker-2", "worker-3"]
    await supervisor.scale("worker", 1)
    assert supervisor.counts()["worker"] == {"replicas": 1, "ready": 1}
    # Those that leave are told to drain; the one that stays is not.
    await run.until(lambda: [s for _, s in run.statuses].count("draining") == 2)
    assert ("worker", "draining") not in run.statuses
    async with asyncio.timeout(30):
        while len(run.children()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # polling other processes
    supervisor.stop()
    await running
    assert ("worker", "stopped") in run.statuses


async def test_a_drained_process_is_not_started_again_and_its_number_is_free() -> None:
    run = Run(process("worker", DRAINS), scripts={"worker": DRAINS})
    ready = asyncio.Event()
    running = asyncio.create_task(run.supervisor.run([["worker"]], ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
    await run.supervisor.scale("worker", 0)
    async with asyncio.timeout(30):
        while run.children():  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # polling another process
    await run.supervisor.scale("worker", 1)
    await run.until(lambda: run.statuses.count(("worker", "ready")) == 2)
    assert "starting again" not in run.output.getvalue()
    run.supervisor.stop()
    await running
