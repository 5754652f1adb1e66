"""Processes that share a GPU load on it one after the other.

vLLM measures its memory on a GPU by the free memory before and after loading. Another process that
loads meanwhile would be counted, or make it fail. This includes encoders, which free memory after
they have recorded their passes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from auricle.core.errors import ProcessFailed
from auricle.process.metrics import report_status

_POLL_SECONDS = 0.2
# A launcher ends the start earlier, by the number of processes that share the GPU.
_DEADLINE_SECONDS = 3600.0


@asynccontextmanager
async def device_turn(
    gpu: str | None, directory: Path | None = None, deadline_seconds: float = _DEADLINE_SECONDS
) -> AsyncIterator[None]:
    """Hold the lock for loading on this process's GPU; without one (`gpu` None) do nothing.

    A process has one GPU, the first that CUDA_VISIBLE_DEVICES names. The lock ends with its
    process. `directory` is common to all of them, by default the directory for temporary files,
    which the launcher creates. Raises ProcessFailed if others hold the lock for
    `deadline_seconds`.
    """
    if gpu is None:
        yield
        return
    report_status("waiting for its device")
    first = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0].strip()
    name = f"auricle-{os.getuid()}-loads-{first.replace('/', '_')}"
    with ((directory or Path(tempfile.gettempdir())) / name).open("w") as file:
        deadline = time.monotonic() + deadline_seconds
        while not _taken(file):
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"other processes have been loading on its device for {deadline_seconds:g} s"
                )
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            # Explicit, because vLLM's process has inherited the file.
            fcntl.flock(file, fcntl.LOCK_UN)


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
