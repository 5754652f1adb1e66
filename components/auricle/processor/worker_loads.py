"""What is known of a pool's workers, for placing segments. Pure but for the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from auricle.load_reports import WorkerLoad

# Of reports that stop, the last ones say nothing any more.
_STALE_INTERVALS = 3.0
# Where nothing is known of a worker's size.
_SLOTS = 32


class WorkerLoads:
    """The last report of each worker, and what was placed since it came."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, tuple[float, WorkerLoad]] = {}
        self._since: Counter[int] = Counter()

    def heard(self, load: WorkerLoad) -> None:
        """A worker's report."""
        now = self._clock()
        self._last[load.instance] = (now, load)
        self._since[load.instance] = 0
        self._forget(now)

    def placed(self, instance: int) -> None:
        """A segment goes there; its load will be in the reports to come."""
        self._since[instance] += 1

    def draining(self, instance: int) -> bool:
        """Whether the worker wants nothing new."""
        return instance in self._last and self._last[instance][1].draining

    def open(self, instances: Iterable[int]) -> list[int]:
        """Those that are not draining; all of them if all are."""
        instances = list(instances)
        return [i for i in instances if not self.draining(i)] or instances

    def pressure(self, instance: int) -> tuple[float, float]:
        """To be compared: how full the worker is (slots or KV, whichever is fuller, with what
        was placed there since it said so), then how long its steps take. A worker that has
        not reported is taken for empty: new ones get segments at once."""
        since = self._since[instance]
        if instance not in self._last:
            return since / _SLOTS, 0.0
        load = self._last[instance][1]
        # What it refuses it cannot take, whatever its slots say.
        full = 1.0 if load.refused_per_second > 0 else 0.0
        used = max(load.slots_used / load.slots_total, load.kv_usage, full)
        return used + since / load.slots_total, load.step_seconds

    def _forget(self, now: float) -> None:
        gone = [
            instance
            for instance, (at, load) in self._last.items()
            if now - at > _STALE_INTERVALS * max(load.seconds, 1.0)
        ]
        for instance in gone:
            del self._last[instance]
            del self._since[instance]
