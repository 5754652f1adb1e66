"""The thread that runs a worker's passes, and tells a broken device from a bad job."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from auricle.errors import ProcessFailed
from auricle.process.device_faults import end_if_sticky, is_out_of_memory

log = logging.getLogger(__name__)
Work = TypeVar("Work")
Result = TypeVar("Result")


class DeviceThread:
    """Runs the passes of `name` (such as "encoder"), one at a time, off the event loop.

    `silence` runs a pass that cannot be at fault itself; it raises whatever the device raises.
    """

    def __init__(self, name: str, silence: Callable[[], object]) -> None:
        self._name = name
        self._silence = silence
        self._thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[Work], Result], batch: Work) -> Result:
        """Return what `work` makes of a batch.

        What it raises is raised here, and is of this batch alone: a process whose device fails
        all that follows ends at once, and after other errors silence is tried. If that fails too,
        raises ProcessFailed. A device without memory left works on.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, batch)
        except Exception as error:
            end_if_sticky(error, f"a pass of the {self._name}")
            if not is_out_of_memory(error):
                await self._try_silence(error)
            raise

    async def answers(self) -> None:
        """Return once the thread has answered, which it does between two passes."""
        await asyncio.get_running_loop().run_in_executor(self._thread, time.monotonic)

    def close(self) -> None:
        """Stop the thread; what is queued there is dropped."""
        self._thread.shutdown(cancel_futures=True)

    async def _try_silence(self, error: Exception) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._silence)
        except Exception as again:
            log.error("a pass failed: %s", error)
            raise ProcessFailed(f"the {self._name} fails on silence too: {again}") from error
