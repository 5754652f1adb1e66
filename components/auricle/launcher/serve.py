"""`auricle serve`: runs the processes of a graph with the settings of a config file."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from auricle.config.settings import CommonSettings
from auricle.core.errors import AuricleError, SettingsError
from auricle.dynamo.events import relaying
from auricle.dynamo.secrets import secrets_of
from auricle.launcher.checks import check_checkpoints, check_discovery, check_inotify, check_ports
from auricle.launcher.config import COMMAND_LINE, COMMON, all_settings, load_config
from auricle.launcher.control import SOCKET_VARIABLE, ControlServer
from auricle.launcher.gpus import multi_process_service, processes_by_gpu
from auricle.launcher.graph import Component, load_graph
from auricle.launcher.lengths import check_lengths
from auricle.launcher.model_folders import place_models
from auricle.launcher.output import StatusBoard
from auricle.launcher.processes import Process, ProcessFactory
from auricle.launcher.supervisor import Supervisor
from auricle.process.device_faults import visible_gpus
from auricle.process.logs import configure_logging

log = logging.getLogger(__name__)
_LISTENING = "listening at "
_LAUNCHER = "launcher"


async def serve(
    graph: str | Component,
    config: Path | None,
    overrides: Sequence[str],
    *,
    console: Console,
    quiet: bool = False,
    on_ready: Callable[[str], None] | None = None,
    on_supervisor: Callable[[Supervisor], None] | None = None,
    on_status: Callable[[str, str], None] = lambda _process, _status: None,
) -> None:
    """Run the graph until SIGTERM, which drains it, or SIGINT, which does not.

    `graph` is the component that all others follow from, or its name as for `load_graph`.
    `on_ready(url)` is called once all processes are ready, `on_supervisor` before the start, and
    `on_status` with each process's name and status. Runs in the main thread's event loop. Raises
    SettingsError or StartFailed; with JSON logs the error is logged, and SystemExit raised instead.
    """
    os.umask(0o077)  # new files are private to this user
    root = load_graph(graph) if isinstance(graph, str) else graph
    names = root.in_start_order()
    source = str(config or COMMAND_LINE)
    sections = load_config(config, overrides)
    settings = all_settings(names, sections, source)
    as_json = settings[names[-1]].log_format == "json"
    if as_json:
        configure_logging(_LAUNCHER, settings[names[-1]])
    output = _Output(console, quiet, as_json, on_ready, on_status)
    own_directory = "discovery_path" not in sections.get(COMMON, {})
    try:
        check_ports(settings)
        check_checkpoints(settings)
        overrides = [*overrides, *place_models(names, sections, source, output.line)]
        settings = all_settings(names, sections, source)
        check_inotify(settings)
        check_lengths(settings)
        with _work_directory() as work:
            common = settings[names[-1]]
            arguments = [*(["-f", str(config)] if config else []), *overrides]
            discovery = work / "discovery" if own_directory else None
            check_discovery(common, discovery)
            if discovery is not None:
                # A directory per run: it has no stale records, and is removed at the end.
                arguments.append(f"--Common.discovery_path={discovery}")
                common = common.model_copy(update={"discovery_path": discovery})
            secrets_of(common)
            control = work / "launcher.sock"
            temporary = work / "tmp"
            temporary.mkdir()
            sharing = await asyncio.to_thread(_sharing, settings)
            async with multi_process_service(common, sharing, work, output.line) as variables:
                environment = _environment(control, temporary) | variables
                factory = ProcessFactory(settings, arguments, environment, sharing)
                with relaying(common):
                    await _run(root, settings, factory, control, output, on_supervisor)
    except AuricleError as error:
        if not as_json:
            raise
        log.error("%s", error)
        raise SystemExit(1) from None


@dataclass(frozen=True)
class _Output:
    """Shows the launcher's progress, and reports that all processes are ready."""

    console: Console
    quiet: bool
    as_json: bool
    on_ready: Callable[[str], None] | None
    on_status: Callable[[str, str], None]

    def board(self, names: list[str]) -> StatusBoard:
        return StatusBoard(names, self.console, quiet=self.quiet, as_json=self.as_json)

    def line(self, text: str) -> None:
        """Show a line before the processes start."""
        if self.as_json:
            log.info("%s", text)
        elif not self.quiet:
            self.console.print(text, highlight=False)

    def ready(self, board: StatusBoard, url: str) -> None:
        board.stop()
        # A host of several may have no frontend.
        text = f"auricle ready at {url}" if url else "auricle ready"
        if not self.quiet and self.as_json:
            board.log(_LAUNCHER, text)
        elif not self.quiet:
            self.console.print(text, highlight=False)
        if self.on_ready is not None:
            self.on_ready(url)


async def _run(
    root: Component,
    settings: Mapping[str, CommonSettings],
    factory: ProcessFactory,
    control: Path,
    output: _Output,
    on_supervisor: Callable[[Supervisor], None] | None,
) -> None:
    processes = [
        factory.make(name, number)
        for name in root.in_start_order()
        for number in range(1, settings[name].replicas + 1)
    ]
    board = output.board([p.name for p in processes])
    url = ""

    def noted(process: Process, status: str) -> None:
        nonlocal url
        output.on_status(process.name, status)
        if process.component == root.name and status.startswith(_LISTENING):
            url = status.removeprefix(_LISTENING)

    board.start()
    try:
        supervisor = Supervisor(processes, factory, board, noted)
        if on_supervisor is not None:
            on_supervisor(supervisor)
        server = ControlServer(supervisor, control)
        serving = asyncio.create_task(server.run())
        try:
            groups, order = _start_groups(processes), root.in_stop_order()
            await supervisor.run(groups, lambda: output.ready(board, url), order)
        finally:
            server.close()
            await serving
    finally:
        board.stop()


def _sharing(settings: Mapping[str, CommonSettings]) -> Mapping[int, int]:
    """Return the number of processes on each of the machine's GPUs."""
    return processes_by_gpu(settings) if visible_gpus() else {}


def _environment(control: Path, temporary: Path) -> dict[str, str]:
    """Return the environment variables that every process gets.

    `temporary` is the directory of their temporary files. It is removed at the end, because vLLM
    leaves sockets and a file even after an orderly end.
    """
    return {
        "AURICLE_SUPERVISED": "1",
        "PYTHONUNBUFFERED": "1",
        # With an arena per thread, glibc would not return the memory of ended sessions.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
        SOCKET_VARIABLE: str(control),
        "TMPDIR": str(temporary),
    }


@contextmanager
def _work_directory() -> Iterator[Path]:
    """Create a directory that is removed at the end of the run.

    Raises SettingsError if it cannot be created.
    """
    try:
        work = Path(tempfile.mkdtemp(prefix="auricle-"))
    except OSError as error:
        raise SettingsError(
            f"cannot create a temporary directory in {tempfile.gettempdir()}: {error.strerror}; "
            "free space or permit writing there, or set TMPDIR"
        ) from None
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _start_groups(processes: list[Process]) -> list[list[str]]:
    """Return the names of processes by group; a group starts when the one before is ready.

    All processes but planners start together: importing libraries takes seconds, and each
    process waits for those that it calls. A planner decides by the state of the pools, so it
    starts when they are ready.
    """
    planners = [p.name for p in processes if p.component == "Planner"]
    others = [p.name for p in processes if p.component != "Planner"]
    return [group for group in (others, planners) if group]
