"""Circus's watcher of a process, whose output is read up to end of file.

circus itself stops reading when the process ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from circus.process import UNEXISTING
from circus.watcher import Watcher

from auricle.launcher.processes import Process

# Larger than a pipe's buffer, so that one read returns everything written before it.
_READ_BYTES = 1 << 20


class ProcessOutput:
    """Replaces circus's redirector, which reads the output of a watcher's processes.

    circus closes a pipe as soon as it sees that the process has ended, and loses the last
    output: the last status, or the error of a crash. This class reads a pipe until all
    processes that may write to it have ended, or until `finish`. Used on the event loop.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        """`on_line` is called on the event loop with each line, without its newline."""
        self._on_line = on_line
        self._begun: dict[int, bytes] = {}  # by descriptor: the incomplete last line

    def catch_up(self) -> None:
        """Read and pass on all output written so far."""
        for descriptor in list(self._begun):
            self._read(descriptor)

    def finish(self) -> None:
        """Pass on all output written so far and close the pipes."""
        self.catch_up()
        for descriptor in list(self._begun):
            self._end(descriptor)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._end(descriptor)
            return
        *lines, self._begun[descriptor] = (self._begun[descriptor] + data).split(b"\n")
        for line in lines:
            self._pass_on(line)

    def _end(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        if rest := self._begun.pop(descriptor):
            self._pass_on(rest)

    def _pass_on(self, line: bytes) -> None:
        self._on_line(line.decode(errors="replace").rstrip())

    # ── the interface of a circus redirector ────────────────────────────────

    def start(self) -> None:
        """Do nothing: reading starts with `add_redirections`."""

    def stop(self) -> None:
        """Do nothing: remaining output of a stopped watcher is still read."""

    def add_redirections(self, process: Any) -> None:
        """Start reading the output of a process that was started."""
        for pipe in (process.stdout, process.stderr):
            # A duplicate, because circus closes its descriptor when the process has ended.
            descriptor = os.dup(pipe.fileno())
            os.set_blocking(descriptor, False)
            self._begun[descriptor] = b""
            asyncio.get_running_loop().add_reader(descriptor, self._read, descriptor)

    def remove_redirections(self, process: Any) -> None:
        """Do nothing: remaining output of a process that has ended is still read."""


class OutputWatcher(Watcher):  # type: ignore[misc]  # circus has no types
    """A circus watcher whose redirector is `output`."""

    output: ProcessOutput

    @property
    def _redirector_class(self) -> Callable[..., ProcessOutput]:
        return lambda *_streams, **_options: self.output

    async def manage_processes(self) -> None:
        """Stop once the process has been reaped.

        circus's own method forgets a process that has ended since the arbiter last reaped, and
        with it its exit code and what it leaves behind.
        """
        for process in list(self.processes.values()):
            if process.status == UNEXISTING:
                self.reap_process(process.pid)
        if not (self.processes or self.is_stopped() or self.is_stopping()):
            await self._stop()


def watcher_of(
    process: Process, on_line: Callable[[str], None], on_end: Callable[[str, int], None]
) -> OutputWatcher:
    """Return a watcher that starts `process`, and records its exit code when it has ended.

    `on_end` is called on the event loop with its name and process group, which may have others.
    """
    output = ProcessOutput(on_line)

    def reaped(*, process_pid: int, exit_code: int | None = None, **_more: Any) -> bool:
        process.exit_code = exit_code
        on_end(process.name, process_pid)
        return True

    watcher = OutputWatcher(
        process.name,
        process.command[0],
        args=process.command[1:],
        env=process.environment,
        copy_env=True,
        respawn=False,
        autostart=False,
        stdout_stream={"stream": output},
        stderr_stream={"stream": output},
        # In a process group of its own: Ctrl-C then signals only the launcher, which stops the
        # processes in order.
        shell=False,
        close_child_stdin=True,
        hooks={"after_reap": (reaped, True)},
    )
    watcher.output = output
    return watcher
