"""The frontend as it must not be: recordings are decoded on its event loop.

    python -m benchmarks.frontdoor.on_loop -f CONFIG --Frontend.key=value …

Everything else is the product's own frontend; only what `DecodingProcesses` does in
processes of their own is done in place.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

from auricle.frontend import main as frontend
from auricle.frontend.recordings.decoding import Decoded, DecodingFailed, DecodingJob, outputs
from auricle.frontend.recordings.parts import Part


class OnTheLoop:
    """Same interface, same limit on recordings at a time."""

    def __init__(self, limit: int) -> None:
        self._room = asyncio.Semaphore(limit)

    async def start(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to close."""

    async def parts(self, job: DecodingJob) -> AsyncGenerator[Part | Decoded, None]:
        """Each part is decoded where everything else waits for it."""
        async with self._room:
            for output in outputs(job):
                if isinstance(output, DecodingFailed):
                    raise AssertionError("outputs raises instead")
                yield output
                await asyncio.sleep(0)


if __name__ == "__main__":
    from auricle.cli import main

    frontend.DecodingProcesses = OnTheLoop  # type: ignore[assignment,misc]
    sys.argv[1:1] = ["component", "Frontend"]
    main()
