"""The latest load report of each process of a pool. No I/O but the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from auricle.load.reports import STALE_INTERVALS, ProcessorLoad, WorkerLoad

_FORGOTTEN_SECONDS = 600.0
Load = TypeVar("Load", WorkerLoad, ProcessorLoad)


class LastReports(Generic[Load]):
    """Keeps the latest report of each instance, and how often work was sent there since.

    An instance whose reports stop is silent, not idle; it is forgotten after 10 minutes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, tuple[float, Load]] = {}
        self._since: Counter[int] = Counter()
        self._known: dict[int, float] = {}  # since when, reports or not

    def heard(self, load: Load) -> None:
        """Store a report; it includes all work sent to the instance before."""
        now = self._clock()
        self._last[load.instance] = (now, load)
        self._since[load.instance] = 0
        self._known.setdefault(load.instance, now)
        for instance, (at, _) in list(self._last.items()):
            if now - at > _FORGOTTEN_SECONDS:
                del self._last[instance], self._since[instance]
        for instance, since in list(self._known.items()):
            if now - since > _FORGOTTEN_SECONDS and instance not in self._last:
                del self._known[instance]

    def answering(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are not silent, or all of them if all are silent.

        One is silent if nothing was heard of it for three intervals while others reported. If
        nobody reports any more, the reports are lost, not the instances.
        """
        instances, now = list(instances), self._clock()
        for instance in instances:
            self._known.setdefault(instance, now)
        if not self._last:
            return instances
        latest, last = max(self._last.values(), key=lambda one: one[0])
        interval = max(last.seconds, 1.0)
        if now - latest > STALE_INTERVALS * interval:
            return instances
        heard = {i: self._last[i][0] if i in self._last else self._known[i] for i in instances}
        answering = [i for i, at in heard.items() if now - at <= STALE_INTERVALS * interval]
        return answering or instances

    def sent(self, instance: int) -> None:
        """Count one session or segment sent to the instance since its latest report."""
        self._since[instance] += 1

    def since(self, instance: int) -> int:
        """Return how often work was sent to the instance since its latest report."""
        return self._since[instance]

    def last(self, instance: int) -> Load | None:
        """Return the latest report; None if there was none."""
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
