"""The last load report of each process of a pool, and what was sent there since.

Pure but for the clock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from auricle.load_reports import ProcessorLoad, WorkerLoad

Load = TypeVar("Load", WorkerLoad, ProcessorLoad)
# Of reports that stop, the last ones say nothing any more.
_STALE_INTERVALS = 3.0


class LastReports(Generic[Load]):
    """By instance; those that stop are forgotten as others come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, tuple[float, Load]] = {}
        self._since: Counter[int] = Counter()

    def heard(self, load: Load) -> None:
        """A process's report; what was sent there before is in it."""
        now = self._clock()
        self._last[load.instance] = (now, load)
        self._since[load.instance] = 0
        for instance, (at, last) in list(self._last.items()):
            if now - at > _STALE_INTERVALS * max(last.seconds, 1.0):
                del self._last[instance]
                del self._since[instance]

    def sent(self, instance: int) -> None:
        """Something goes there; it will be in the reports to come."""
        self._since[instance] += 1

    def since(self, instance: int) -> int:
        """How often something was sent there since it reported."""
        return self._since[instance]

    def last(self, instance: int) -> Load | None:
        """None where nothing was heard yet, or for long."""
        known = self._last.get(instance)
        return None if known is None else known[1]

    def draining(self, instance: int) -> bool:
        """Whether the process wants nothing new."""
        load = self.last(instance)
        return load is not None and load.draining
