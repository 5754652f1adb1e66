"""Freezes a process: it neither runs nor ends."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psutil

from auricle_testing.server import eventually


async def freeze(process: psutil.Process) -> None:
    """Stop all of its threads; on a busy machine that takes a while."""
    process.send_signal(signal.SIGSTOP)
    threads = Path(f"/proc/{process.pid}/task")
    await eventually(lambda: all(_stands(thread) for thread in threads.glob("*")), seconds=60)


def _stands(thread: Path) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        # "tid (command) state …"; the command may have spaces and parentheses.
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    return True
