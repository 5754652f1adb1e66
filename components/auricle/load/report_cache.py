"""The latest load report of each process of a pool. No I/O but the clock."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Generic, TypeVar

from auricle.load.reports import STALE_INTERVALS, ProcessorLoad, WorkerLoad

_FORGOTTEN_SECONDS = 600.0
Load = TypeVar("Load", WorkerLoad, ProcessorLoad)


class LastReports(Generic[Load]):
    """Keeps the latest report of each instance, and counts work sent to it since.

    An instance whose reports stop is silent, not idle; it is forgotten after 10 minutes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Both are in the order of their times, so that forgetting need not look at all of them.
        self._last: OrderedDict[int, tuple[float, Load]] = OrderedDict()
        # Instances without a report, with the time at which they were first listed.
        self._unreported: OrderedDict[int, float] = OrderedDict()
        self._since: Counter[int] = Counter()

    def update(self, load: Load) -> None:
        """Store a report; it includes all work sent to the instance before."""
        now = self._clock()
        self._last[load.instance] = (now, load)
        self._last.move_to_end(load.instance)
        self._since[load.instance] = 0
        self._unreported.pop(load.instance, None)
        long_ago = now - _FORGOTTEN_SECONDS
        for instance in list(takewhile(lambda i: self._last[i][0] < long_ago, self._last)):
            del self._last[instance], self._since[instance]
        for instance in list(takewhile(lambda i: self._unreported[i] < long_ago, self._unreported)):
            del self._unreported[instance]

    def answering(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are not silent, or all of them if all are silent.

        An instance is silent if it has not reported for three intervals while others have. If all
        stop reporting, the reports are lost, not the instances.
        """
        instances, now, last = list(instances), self._clock(), self._last
        for instance in instances:
            if instance not in last:
                self._unreported.setdefault(instance, now)
        if not last:
            return instances
        latest, report = next(reversed(last.values()))
        since = now - STALE_INTERVALS * max(report.seconds, 1.0)
        if latest < since:
            return instances
        unreported = self._unreported
        answering = [i for i in instances if (last[i][0] if i in last else unreported[i]) >= since]
        return answering or instances

    def sent(self, instance: int) -> None:
        """Count one session or segment sent to the instance since its latest report."""
        self._since[instance] += 1

    def since(self, instance: int) -> int:
        """Return the number of sessions or segments sent to it since its latest report."""
        return self._since[instance]

    def last(self, instance: int) -> Load | None:
        """Return the latest report, or None."""
        known = self._last.get(instance)
        return None if known is None else known[1]

    def seen(self) -> Iterator[tuple[float, Load]]:
        """Yield the latest report of each instance, with its age in seconds."""
        now = self._clock()
        for at, load in self._last.values():
            yield now - at, load

    def draining(self, instance: int) -> bool:
        """Return whether the instance reported that it is draining."""
        load = self.last(instance)
        return load is not None and load.draining


# The load of the processors, for placing sessions. No I/O but the clock.


class ProcessorLoads(LastReports[ProcessorLoad]):
    """The latest reports of all processors, and the sessions sent to each since."""

    def staying(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are not draining; silent ones only if all are silent."""
        return self.answering(i for i in instances if not self.draining(i))

    def chosen(self, instances: Iterable[int]) -> int:
        """Return the instance with the fewest sessions, and count one more for it."""
        best = min(instances, key=lambda i: (self._sessions(i), i))
        self.sent(best)
        return best

    def _sessions(self, instance: int) -> int:
        load = self.last(instance)
        return (0 if load is None else load.sessions) + self.since(instance)


# The load of a pool's workers, for placing segments. No I/O but the clock.

# Request slots assumed for a worker that has not reported.
_SLOTS = 32
# How much fuller than the emptiest, as a share of its capacity, a worker may be and still be
# preferred for its prefix cache. Chosen, not measured: enough for a few decodes more.
_SLACK = 0.25
_NEARLY_FULL = 0.9
_NOTHING_PER_SECOND = 1e-9


class WorkerLoads(LastReports[WorkerLoad]):
    """The latest reports of one pool's workers, and the segments sent to each since."""

    def open(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are neither silent nor draining.

        If none remain, return the draining ones, and silent ones last.
        """
        instances = self.answering(instances)
        return [i for i in instances if not self.draining(i)] or instances

    def pressure(self, instance: int) -> tuple[float, float]:
        """Return a sort key: how full the worker is (0 to 1 and above), then its step time.

        The fuller of slots and KV cache counts, plus the share of requests that failed by the
        worker's fault, plus the segments placed since the report. A
        worker that has not reported counts as empty, so that a new one gets segments at once.
        """
        since, load = self.since(instance), self.last(instance)
        if load is None:
            return since / _SLOTS, 0.0
        # A worker that refuses requests is full, whatever its slots say.
        full = 1.0 if load.refused_per_second > 0 else 0.0
        used = max(load.slots_used / load.slots_total, load.kv_usage, full)
        # Failing fast must not look like having room.
        used += load.failed_per_second / max(
            load.failed_per_second + load.requests_per_second, _NOTHING_PER_SECOND
        )
        return used + since / load.slots_total, load.step_seconds

    def best(
        self, instances: Iterable[int], placed: Mapping[int, int], held: Mapping[int, int]
    ) -> int:
        """Choose the worker for a segment.

        Of the workers that are about as empty as the emptiest and not nearly full, it is the
        one whose prefix cache has most of the prompt (`held`, in tokens); then the emptiest;
        then the one with the fewest segments `placed`.
        """
        loads = {i: (*self.pressure(i), placed.get(i, 0)) for i in instances}
        least = min(loads.values())[0]
        limit = max(least, min(least + _SLACK, _NEARLY_FULL))
        near = [i for i in loads if loads[i][0] <= limit]
        return min(near, key=lambda i: (-held.get(i, 0), loads[i]))
