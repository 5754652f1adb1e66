"""PD processes that share a device load one after the other.

vLLM measures on a GPU how much memory it takes while it loads, by what is free of the whole
device before and after. Somebody else who loads meanwhile would be counted, or fail it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

from auricle.core.errors import ProcessFailed
from auricle.workers.pd.engine import Engine

_LOOK_SECONDS = 0.2
# As long as the launcher waits for a process to become ready.
_DEADLINE_SECONDS = 300.0


@asynccontextmanager
async def device_turn(
    processes: int, directory: Path | None = None, deadline_seconds: float = _DEADLINE_SECONDS
) -> AsyncIterator[None]:
    """Keep others of the `processes` that share this process's device from loading.

    A process that ends, however it does, ends its turn. `directory` is the same for all of them;
    by default that of temporary files, which the launcher makes for its processes. Raises
    ProcessFailed if others are loading for `deadline_seconds`.
    """
    if processes == 1:
        yield
        return
    name = os.environ.get("CUDA_VISIBLE_DEVICES") or "all"
    path = (directory or Path(tempfile.gettempdir())) / f"auricle-{os.getuid()}-loads-{name}"
    with path.open("w") as file:
        deadline = time.monotonic() + deadline_seconds
        while not _taken(file):
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"others have been loading on its device for {deadline_seconds:g} s"
                )
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            # vLLM's process has inherited the file: to close it here would not end the turn.
            fcntl.flock(file, fcntl.LOCK_UN)


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# Ends a process whose engine has died.

# An engine notes at once that it has died; looking costs nothing.
_HEALTH_SECONDS = 0.2


async def watch(engine: Engine) -> None:
    """Raise, and so end this process, when the engine has died."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEALTH_SECONDS):
                await engine.dead.wait()
                raise ProcessFailed("its engine has ended")
        await engine.check_health()
