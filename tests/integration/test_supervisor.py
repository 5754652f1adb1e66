"""The launcher with small processes of its own: order, restarts, and cleanup."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from auricle.core.aio import with_timeout
from auricle.launcher.output import StatusBoard
from auricle.launcher.supervisor import Process, StartFailed, Supervisor
from auricle_testing.server import eventually

pytestmark = pytest.mark.integration
# Longer than any wait here: a process that ends earlier did not wait for its drain deadline.
DRAIN_SECONDS = 200.0


def process(name: str, script: str, number: int = 1) -> Process:
    code = "import os, sys, time, signal\n" + textwrap.dedent(script)
    shown = name if number == 1 else f"{name}-{number}"
    command = [sys.executable, "-u", "-c", code]
    return Process(
        shown, name, command, {"AURICLE_SUPERVISED": "1"}, number, drain_seconds=DRAIN_SECONDS
    )


class Scripts:
    """Creates more of the processes of a run."""

    def __init__(self, scripts: dict[str, str]) -> None:
        self._scripts = scripts

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(self._scripts)

    def make(self, component: str, number: int) -> Process:
        return process(component, self._scripts[component], number)


READY = "print('AURICLE_STATUS ready')\ntime.sleep(600)\n"


class Run:
    """A supervisor over some processes."""

    def __init__(self, *processes: Process, scripts: dict[str, str] | None = None) -> None:
        self._before = set(psutil.Process().children())  # a server shared by other tests
        self.output = io.StringIO()
        board = StatusBoard([p.name for p in processes], Console(file=self.output), quiet=False)
        self.statuses: list[tuple[str, str]] = []
        self.changed = asyncio.Event()
        self.supervisor = Supervisor(list(processes), Scripts(scripts or {}), board, self._heard)
        self._groups = [[p.name] for p in processes]
        self._stop_order = [[p.component] for p in reversed(processes)]

    def _heard(self, process: Process, status: str) -> None:
        self.statuses.append((process.name, status))
        self.changed.set()

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Wait for each in turn; stop them at the end of the block, also if the test fails."""
        ready = asyncio.Event()
        running = asyncio.create_task(
            self.supervisor.run(self._groups, ready.set, self._stop_order)
        )
        try:
            await with_timeout(60, ready.wait(), "starting")
            yield
        finally:
            self.supervisor.stop()
            await with_timeout(60, running, "stopping")

    def children(self) -> list[psutil.Process]:
        """Child processes started since this object was created."""
        return [c for c in psutil.Process().children() if c not in self._before]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.changed.wait()
                self.changed.clear()


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_callees_are_ready_before_callers_start_and_all_end() -> None:
    run = Run(process("worker", READY), process("front", READY))
    async with run.ready():
        assert run.statuses == [("worker", "ready"), ("front", "ready")]
        children = run.children()
        assert len(children) == 2
        os.kill(os.getpid(), signal.SIGTERM)
    assert all(ended(child) for child in children)


async def test_nobody_can_reach_the_supervisor_through_a_socket() -> None:
    before = named_sockets()
    run = Run(process("worker", READY))
    async with run.ready():
        assert named_sockets() == before


def named_sockets() -> set[str]:
    connections = psutil.Process().net_connections("unix")
    return {str(one.laddr) for one in connections if one.laddr}


async def test_a_crashed_process_is_started_again(tmp_path: Path) -> None:
    marker, go_on = tmp_path / "started", tmp_path / "go_on"
    script = f"""
        first = not os.path.exists({str(marker)!r})
        open({str(marker)!r}, "w").close()
        while not first and not os.path.exists({str(go_on)!r}):
            time.sleep(0.05)
        print("AURICLE_STATUS ready")
        time.sleep(0.5 if first else 600)
        sys.exit(3)
    """
    run = Run(process("fragile", script), scripts={"fragile": script})
    async with run.ready():
        # Not ready while its process is gone.
        await eventually(lambda: run.supervisor.counts()["fragile"]["ready"] == 0, seconds=60)
        go_on.touch()
        await run.until(lambda: len(run.statuses) == 2)
        assert run.supervisor.counts()["fragile"] == {"replicas": 1, "ready": 1}
    assert "ended with exit code 3; starting again at once" in run.output.getvalue()


async def test_the_signal_that_ended_a_process_is_named() -> None:
    run = Run(process("victim", READY))
    async with run.ready():
        (child,) = run.children()
        child.kill()
        await run.until(lambda: run.statuses.count(("victim", "ready")) == 2)
    assert "ended by signal 9 (SIGKILL); starting again at once" in run.output.getvalue()


def _dead(process: psutil.Process) -> bool:
    """Whether it has ended, even if it has not been reaped."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


async def told_of(run: Run) -> psutil.Process:
    """The process whose id a script prints after `left`."""
    await eventually(lambda: "left" in run.output.getvalue(), seconds=60)
    found = re.search(r"left (\d+)", run.output.getvalue())
    assert found is not None
    return psutil.Process(int(found.group(1)))


async def test_what_a_process_leaves_behind_is_ended_with_it() -> None:
    """vLLM's EngineCore, for example, does not notice that its parent was killed."""
    script = """
        import subprocess, sys, time
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("left", left.pid)
        print("AURICLE_STATUS ready")
        time.sleep(600)
    """
    run = Run(process("parent", script))
    async with run.ready():
        left = await told_of(run)
        parent = left.parent()
        assert parent is not None
        parent.kill()
        await eventually(lambda: not left.is_running() or _dead(left), seconds=60)


async def test_what_a_process_leaves_behind_and_ignores_its_signal_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """vLLM's EngineCore may ignore it during its start. The launcher logs this before it ends."""
    monkeypatch.setattr("auricle.launcher.child._END_SECONDS", 0.5)
    monkeypatch.setattr("auricle.launcher.child._KILLED_SECONDS", 60.0)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')"
    script = f"""
        import subprocess, sys, time
        left = subprocess.Popen(
            [sys.executable, "-u", "-c", "{deaf}; time.sleep(600)"], stdout=subprocess.PIPE
        )
        left.stdout.readline()
        print("left", left.pid)
        print("AURICLE_STATUS ready")
        time.sleep(600)
    """
    run = Run(process("parent", script))
    async with run.ready():
        left = await told_of(run)
    assert _dead(left)
    said = run.output.getvalue()
    assert f"left processes that did not end within 0.5 s: killed {left.pid} (python" in said


async def test_a_process_that_cannot_start_is_an_error_with_its_log() -> None:
    run = Run(process("broken", "print('no such checkpoint')\nsys.exit(1)"))
    with pytest.raises(StartFailed, match="broken ended with exit code 1 before it was ready"):
        await run.supervisor.run([["broken"]], lambda: None, [["broken"]])
    assert "no such checkpoint" in run.output.getvalue()


async def test_what_a_process_said_before_it_ended_is_heard_to_the_last_word() -> None:
    """The supervisor reads the output even if it could not run before the process ended."""
    script = """
        def end(*_):
            sys.stdout.write("a line of its log\\n" * 1000 + "AURICLE_STATUS leaving\\nlast word")
            sys.exit(1)
        signal.signal(signal.SIGUSR1, end)
    """
    run = Run(process("worker", textwrap.dedent(script) + READY))
    async with run.ready():
        (child,) = run.children()
        child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while not ended(child):
            assert time.monotonic() < deadline
            time.sleep(0.01)  # noqa: ASYNC251  the supervisor shall not look meanwhile
        await run.until(lambda: ("worker", "leaving") in run.statuses)
        await eventually(lambda: "last word" in run.output.getvalue(), seconds=60)
    assert run.output.getvalue().count("a line of its log") == 1000


async def test_a_process_that_ignores_its_signal_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Enough time for the script to print that it received the signal, even on a busy machine.
    monkeypatch.setattr("auricle.launcher.supervisor._STOP_SECONDS", 5.0)
    deaf = """
        def ignore(*_):
            print("AURICLE_STATUS ignoring")
        signal.signal(signal.SIGINT, ignore)
        signal.signal(signal.SIGTERM, ignore)
        print("AURICLE_STATUS ready")
        while True:
            time.sleep(600)
    """
    run = Run(process("stubborn", deaf))
    async with run.ready():
        (child,) = run.children()
    assert run.statuses == [("stubborn", "ready"), ("stubborn", "ignoring")]
    assert ended(child)


DRAINS = (
    """
signal.signal(signal.SIGTERM, lambda *_: (print("AURICLE_STATUS draining"), sys.exit(0)))
signal.signal(signal.SIGINT, lambda *_: (print("AURICLE_STATUS stopped"), sys.exit(0)))
"""
    + READY
)


async def test_a_component_is_scaled_up_and_down_while_it_runs() -> None:
    run = Run(process("worker", DRAINS), scripts={"worker": DRAINS})
    supervisor = run.supervisor
    async with run.ready():
        supervisor.scale("worker", 3)
        assert supervisor.counts()["worker"]["replicas"] == 3
        await run.until(lambda: supervisor.counts()["worker"]["ready"] == 3)
        assert {name for name, _ in run.statuses} == {"worker", "worker-2", "worker-3"}
        supervisor.scale("worker", 1)
        assert supervisor.counts()["worker"] == {"replicas": 1, "ready": 1}
        # Removed replicas receive the request to drain; the remaining one does not.
        await run.until(lambda: [s for _, s in run.statuses].count("draining") == 2)
        assert ("worker", "draining") not in run.statuses
        await eventually(lambda: len(run.children()) == 1, seconds=60)
    assert ("worker", "stopped") in run.statuses


async def test_a_drained_process_is_not_started_again_and_its_number_is_free() -> None:
    run = Run(process("worker", DRAINS), scripts={"worker": DRAINS})
    async with run.ready():
        run.supervisor.scale("worker", 0)
        # Its number stays taken until the process has ended.
        await eventually(lambda: "gone" in run.output.getvalue(), seconds=60)
        assert not run.children()
        run.supervisor.scale("worker", 1)
        await run.until(lambda: run.statuses.count(("worker", "ready")) == 2)
        assert "starting again" not in run.output.getvalue()


# A process that serves sessions for half a second after SIGTERM, and then reports the end.
SERVES = (
    """
def drain(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("AURICLE_STATUS draining")
    time.sleep(0.5)
    print("AURICLE_STATUS drained")
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
signal.signal(signal.SIGINT, lambda *_: (print("AURICLE_STATUS stopped"), sys.exit(0)))
"""
    + READY
)
# A process whose sessions do not end.
HOLDS = SERVES.replace("time.sleep(0.5)", "time.sleep(600)")


async def test_sigterm_drains_callers_before_what_they_call() -> None:
    run = Run(process("worker", SERVES), process("processor", SERVES), process("front", SERVES))
    async with run.ready():
        children = run.children()
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: all(ended(child) for child in children), seconds=60)
    assert run.statuses[3:] == [
        (name, status)
        for name in ("front", "processor", "worker")
        for status in ("draining", "drained")
    ]
    assert "after 200 s at the latest" in run.output.getvalue()


async def test_what_still_serves_is_restarted_while_its_callers_drain() -> None:
    run = Run(process("worker", SERVES), process("front", HOLDS))
    async with run.ready():
        worker = min(run.children(), key=psutil.Process.create_time)
        os.kill(os.getpid(), signal.SIGTERM)
        await run.until(lambda: ("front", "draining") in run.statuses)
        worker.kill()
        await run.until(lambda: run.statuses.count(("worker", "ready")) == 2)
        assert ("worker", "draining") not in run.statuses


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_sigterm_or_ctrl_c_ends_all_drains(number: signal.Signals) -> None:
    run = Run(process("worker", HOLDS), process("front", HOLDS))
    async with run.ready():
        children = run.children()
        os.kill(os.getpid(), signal.SIGTERM)
        await run.until(lambda: ("front", "draining") in run.statuses)
        os.kill(os.getpid(), number)
        await eventually(lambda: all(ended(child) for child in children), seconds=60)
    assert run.statuses[-2:] == [("front", "stopped"), ("worker", "stopped")]
    assert ("worker", "draining") not in run.statuses


async def test_ctrl_c_alone_drains_nothing() -> None:
    run = Run(process("worker", HOLDS), process("front", HOLDS))
    async with run.ready():
        children = run.children()
        os.kill(os.getpid(), signal.SIGINT)
        await eventually(lambda: all(ended(child) for child in children), seconds=60)
    assert run.statuses[-2:] == [("front", "stopped"), ("worker", "stopped")]


async def test_a_drain_has_its_own_time_and_then_the_time_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("auricle.launcher.supervisor._STOP_SECONDS", 0.5)
    holds = process("front", HOLDS)
    holds.drain_seconds = 1.0
    drains = process("worker", SERVES)  # its drain alone takes all of its stop time
    run = Run(drains, holds)
    async with run.ready():
        children = run.children()
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: all(ended(child) for child in children), seconds=60)
    assert ("front", "drained") not in run.statuses  # killed
    assert ("worker", "drained") in run.statuses


async def test_a_process_that_drains_already_is_waited_for_or_hurried_with_the_others() -> None:
    scripts = {"worker": HOLDS}
    run = Run(process("worker", HOLDS), scripts=scripts)
    async with run.ready():
        run.supervisor.scale("worker", 2)
        await run.until(lambda: run.supervisor.counts()["worker"]["ready"] == 2)
        run.supervisor.scale("worker", 1)
        await run.until(lambda: ("worker-2", "draining") in run.statuses)
        children = run.children()
        os.kill(os.getpid(), signal.SIGTERM)
        await run.until(lambda: ("worker", "draining") in run.statuses)
        run.supervisor.scale("worker", 3)  # a planner that is unaware of the drain
        assert len(run.children()) == 2
        os.kill(os.getpid(), signal.SIGINT)
        await eventually(lambda: all(ended(child) for child in children), seconds=60)
    assert {status for _, status in run.statuses[-2:]} == {"stopped"}


async def test_a_frozen_process_is_killed_and_started_again() -> None:
    """It can neither answer nor end itself."""
    script = """
        print("AURICLE_STATUS ready")
        while True:
            print("AURICLE_ALIVE")
            time.sleep(0.1)
    """
    victim = process("victim", script)
    victim.liveness_seconds = 5.0  # so that a busy machine does not look like a frozen process
    run = Run(victim)
    async with run.ready():
        await eventually(lambda: victim.alive_at is not None, seconds=60)
        (child,) = run.children()
        child.send_signal(signal.SIGSTOP)
        await run.until(lambda: run.statuses.count(("victim", "ready")) == 2)
        assert ended(child)
    said = run.output.getvalue()
    assert "has not answered for 5 s: killed" in said
    assert "AURICLE_ALIVE" not in said


def test_a_process_that_never_said_that_it_answers_is_not_judged() -> None:
    silent = process("silent", READY)
    assert not silent.hangs(time.monotonic() + 1e6)
    silent.alive_at = 100.0
    assert not silent.hangs(100.0 + silent.liveness_seconds)
    assert silent.hangs(110.0 + silent.liveness_seconds)
