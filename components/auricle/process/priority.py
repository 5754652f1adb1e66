"""Processes that give way to others on the same cores."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_AUTOGROUP = Path("/proc/self/autogroup")


def give_way(nice: int) -> None:
    """Run this process, and those that it starts, at a niceness that is higher by so much.

    Where Linux divides the cores among sessions first, a niceness counts within its session only,
    and the session has one of its own (sched(7), "The autogroup feature"). That is changed if the
    session is this process's, as those of a launcher's components are.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # a kernel without autogroups
            _AUTOGROUP.write_text(str(nice))
