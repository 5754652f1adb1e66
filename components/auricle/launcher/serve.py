"""`auricle serve`: from a graph and a config file to running processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from auricle.launcher.config import load_config, settings_for
from auricle.launcher.control import SOCKET_VARIABLE, ControlServer
from auricle.launcher.graph import load_graph
from auricle.launcher.processes import Process, ProcessFactory
from auricle.launcher.status import StatusBoard
from auricle.launcher.supervisor import Supervisor

_LISTENING = "listening at "


async def serve(
    graph: str,
    config: Path | None,
    overrides: Sequence[str],
    *,
    console: Console,
    quiet: bool = False,
    on_ready: Callable[[str], None] | None = None,
    on_supervisor: Callable[[Supervisor], None] | None = None,
) -> None:
    """Run the graph until SIGINT or SIGTERM; `on_ready(url)` once everything is ready.

    Raises SettingsError before anything starts, StartFailed if something does not start.
    """
    names = load_graph(graph).in_start_order()
    source = str(config or "the command line")
    sections = load_config(config, overrides)
    overrides = list(overrides)
    settings = {name: settings_for(name, sections, source) for name in names}
    work = Path(tempfile.mkdtemp(prefix="auricle-"))
    if "discovery_path" not in sections.get("Common", {}):
        # A directory per run: no stale records from another one, and none left behind.
        (work / "discovery").mkdir()
        overrides.append(f"--Common.discovery_path={work / 'discovery'}")
    control = work / "launcher.sock"
    factory = ProcessFactory(
        settings,
        [*(["-f", str(config)] if config else []), *overrides],
        {
            "AURICLE_SUPERVISED": "1",
            "PYTHONUNBUFFERED": "1",
            # With an arena for every thread, what sessions leave behind is never given back.
            "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
            SOCKET_VARIABLE: str(control),
        },
    )
    processes = [
        factory.make(name, number)
        for name in names
        for number in range(1, settings[name].replicas + 1)
    ]
    board = StatusBoard([p.name for p in processes], console, quiet=quiet)
    url = ""

    def heard(process: Process, status: str) -> None:
        nonlocal url
        if process.component == names[-1] and status.startswith(_LISTENING):
            url = status.removeprefix(_LISTENING)

    def ready() -> None:
        board.stop()
        if not quiet:
            console.print(f"auricle ready at {url}", highlight=False)
        if on_ready is not None:
            on_ready(url)

    board.start()
    try:
        supervisor = Supervisor(processes, factory, board, heard)
        if on_supervisor is not None:
            on_supervisor(supervisor)
        server = ControlServer(supervisor, control)
        serving = asyncio.create_task(server.run())
        try:
            await supervisor.run(_start_groups(names, processes), ready)
        finally:
            server.close()
            await serving
    finally:
        board.stop()
        shutil.rmtree(work, ignore_errors=True)


def _start_groups(names: list[str], processes: list[Process]) -> list[list[str]]:
    """Workers load their weights side by side; everything else waits for what it calls."""
    groups: list[list[str]] = []
    for name in names:
        members = [p.name for p in processes if p.component == name]
        if (
            name.endswith("Worker")
            and groups
            and groups[-1][0].partition("-")[0].endswith("Worker")
        ):
            groups[-1] += members
        elif members:
            groups.append(members)
    return groups
