"""What a process leaves in its process group when it ends: it is ended too, or killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from auricle.tasks import TaskOwner

# For processes that end by themselves: vLLM's EngineCore gives its memory back first, and Python's
# resource tracker, which ignores the signal, frees shared memory once the others have gone.
_END_SECONDS = 3.0
_KILLED_SECONDS = 5.0  # a process that the kernel cannot end is not waited for
_LOOK_SECONDS = 0.05


class Leftovers:
    """Ends what is left in the process groups of processes that have ended.

    Use it on one event loop. `say(name, line)` is called for what had to be killed.
    """

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._ending = TaskOwner()
        self._groups: set[asyncio.Task[None]] = set()

    def end(self, name: str, group: int) -> None:
        """End what the process `name`, the leader of this group, has left; return at once."""
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
            task = self._ending.start(self._gone(name, group), f"ending what {name} left")
            self._groups.add(task)
            task.add_done_callback(self._groups.discard)

    async def gone(self) -> None:
        """Wait until nothing is left; it takes some seconds at most."""
        if self._groups:
            await asyncio.wait(self._groups)

    async def _gone(self, name: str, group: int) -> None:
        if await _empty(group, _END_SECONDS):
            return
        left = ", ".join(f"{pid} ({command})" for pid, command in members(group))
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        what = f"left processes that did not end within {_END_SECONDS:g} s: killed {left}"
        if not await _empty(group, _KILLED_SECONDS):
            what += "; some are still there"
        self._say(name, what)


async def _empty(group: int, seconds: float) -> bool:
    """Wait until a group has no processes; return whether it came to that in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while any(members(group)):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def members(group: int) -> Iterator[tuple[int, str]]:
    """Yield process id and command of what runs in a process group.

    Processes that have ended are left out: in a container it may be that nobody reaps them.
    """
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has just ended
            # "pid (command) state parent group …"; the command may have spaces and parentheses.
            head, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
            state, _parent, its_group = rest.split()[:3]
            if int(its_group) == group and state not in "ZX":
                yield int(entry.name), head.partition("(")[2]
