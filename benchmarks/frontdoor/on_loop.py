"""A frontend for comparison, which decodes recordings on its event loop.

    python -m benchmarks.frontdoor.on_loop -f CONFIG --Frontend.key=value …

It is the product's frontend, except that the work of `DecodingProcesses` is done in the
frontend's process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from auricle.config.settings import FrontendSettings
from auricle.frontend import main as frontend
from auricle.frontend.recordings.decoding_process import DecodingJob, Output, RecordingDecoder


class OnTheLoop:
    """Has the interface of `DecodingProcesses` and the same limit on concurrent recordings."""

    def __init__(self, settings: FrontendSettings) -> None:
        self._room = asyncio.Semaphore(settings.decoding_processes)

    async def start(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: `start` has started no process."""

    async def outputs(
        self, job: DecodingJob, path: Path, owner: str
    ) -> AsyncGenerator[Output, None]:
        """Decode each part on the event loop, which blocks everything else."""
        async with self._room:
            with path.open("rb") as file:
                for output in RecordingDecoder()(job, file):
                    yield output
                    await asyncio.sleep(0)


if __name__ == "__main__":
    from auricle.cli import main

    frontend.DecodingProcesses = OnTheLoop  # type: ignore[assignment,misc]
    sys.argv[1:1] = ["component", "Frontend"]
    main()
