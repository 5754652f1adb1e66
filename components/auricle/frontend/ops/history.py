"""The load of the processors over the last hour, from the load reports that arrive in any case."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator

from auricle.frontend.ops.documents import LoadMoment, OperationsHistory
from auricle.load.reports import ProcessorLoad, is_silent

EVERY_SECONDS = 10.0
_KEPT_SECONDS = 3600.0


class LoadHistory:
    """The moments of the last hour, one every 10 s. Use it on one event loop."""

    def __init__(
        self,
        reports: Callable[[], Iterator[tuple[float, ProcessorLoad]]],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`reports` yields the latest report of each processor, with its age in seconds."""
        self._reports = reports
        self._wall_clock = wall_clock
        self._moments: deque[LoadMoment] = deque(maxlen=int(_KEPT_SECONDS / EVERY_SECONDS))

    async def run(self) -> None:
        """Record a moment every 10 s, until cancelled."""
        while True:
            self.record()
            await asyncio.sleep(EVERY_SECONDS)

    def record(self) -> None:
        """Record the present load. A processor that is silent does not count."""
        loads = [load for age, load in self._reports() if not is_silent(age, load.seconds)]
        self._moments.append(
            LoadMoment(
                at=self._wall_clock(),
                sessions=sum(load.sessions for load in loads),
                speaking=sum(load.speaking for load in loads),
                waiting=sum(load.waiting for load in loads),
                chunk_seconds=max((load.chunk_seconds for load in loads), default=0.0),
            )
        )

    def now(self) -> OperationsHistory:
        """Return the moments so far, oldest first."""
        return OperationsHistory(EVERY_SECONDS, tuple(self._moments))
