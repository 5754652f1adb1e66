"""One run of a process: its start, its output, its end, and the clean-up of its children."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psutil

# Larger than a pipe's buffer, so that one read returns everything written before it.
_READ_BYTES = 1 << 20
# For processes that end by themselves: vLLM's EngineCore gives its memory back first, and Python's
# resource tracker, which ignores the signal, frees shared memory once the others have gone.
_END_SECONDS = 3.0
_KILLED_SECONDS = 5.0  # a process that the kernel cannot end is not waited for
_POLL_SECONDS = 0.05


class Child:
    """A running process, which leads a process group. Use it on one event loop.

    Ctrl-C signals the launcher's own group only, so the launcher stops its children in order.
    """

    def __init__(self, process: asyncio.subprocess.Process, outputs: Sequence[_Output]) -> None:
        self._process = process
        self._outputs = outputs

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]
    ) -> Child:
        """Start `command` with `environment` added to this process's. Raises OSError.

        `on_line` is called on the event loop with each line of its output, without its newline.
        """
        outputs: list[_Output] = []
        try:
            for _ in ("stdout", "stderr"):
                outputs.append(_Output(on_line))
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=outputs[0].writer,
                stderr=outputs[1].writer,
                start_new_session=True,
            )
        except BaseException:
            for output in outputs:
                output.close()
            raise
        for output in outputs:
            output.writer.close()
        return cls(process, outputs)

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process alone."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def send_group_signal(self, number: signal.Signals) -> bool:
        """Signal the process and those it has started; return whether there are any."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def wait(self) -> int:
        """Return the exit code, or a signal's number negated, when its output has been read."""
        code = await self._process.wait()
        for output in self._outputs:
            output.read()
        return code

    async def clean_up(self) -> str | None:
        """End the children that the ended process left in its group; then close the output.

        Returns a line about killed processes, if there were any.
        """
        killed = await self._end_group() if self.send_group_signal(signal.SIGTERM) else None
        for output in self._outputs:
            output.read()
            output.close()
        return killed

    async def _end_group(self) -> str | None:
        group = self._process.pid
        if await _is_empty(group, _END_SECONDS):
            return None
        left = ", ".join(_members(group))
        self.send_group_signal(signal.SIGKILL)
        killed = f"left processes that did not end within {_END_SECONDS:g} s: killed {left}"
        if not await _is_empty(group, _KILLED_SECONDS):
            killed += "; some are still there"
        return killed


class _Output:
    """Reads lines from a pipe, including those that children of the process write after its end.

    With asyncio's own pipes, output may be read after the end of the process is known.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self.writer = os.fdopen(writer, "wb", buffering=0)
        self._reader = os.fdopen(reader, "rb", buffering=0)
        self._on_line = on_line
        self._incomplete = b""  # the last line
        asyncio.get_running_loop().add_reader(reader, self.read)

    def read(self) -> None:
        """Pass on the lines written so far."""
        data = None if self._reader.closed else self._reader.read(_READ_BYTES)
        if data is None:
            return
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            self._pass_on(line)
        if not data:
            self.close()

    def close(self) -> None:
        """Close the pipe."""
        self.writer.close()
        if self._reader.closed:
            return
        asyncio.get_running_loop().remove_reader(self._reader)
        self._reader.close()
        if self._incomplete:
            self._pass_on(self._incomplete)

    def _pass_on(self, line: bytes) -> None:
        self._on_line(line.decode(errors="replace").rstrip())


async def _is_empty(group: int, seconds: float) -> bool:
    """Wait until a group has no processes; return whether that was within `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while _members(group):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _members(group: int) -> list[str]:
    """Return process ids and commands of the processes that still run in an ended process's group.

    Zombies are left out: a container may have no process that reaps them.
    """
    with suppress(ChildProcessError):
        # Where the launcher is the container's init process, it inherits orphans.
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{pid} ({process.name()})")
    return found
