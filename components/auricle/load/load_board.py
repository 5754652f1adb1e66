"""Aggregates the reports of all processes for the planner. No I/O but the clock."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable

from auricle.load.capacity_profile import CapacityProfile
from auricle.load.observations import PoolObservation, ServiceObservation
from auricle.load.reports import STALE_INTERVALS, ProcessorLoad, WorkerKind, WorkerLoad

# Above this share of refused requests a pool is overloaded, whatever its percentiles are.
_REFUSED_SHARE = 0.01


class LoadBoard:
    """Keeps the reports of the last `seconds`, and drops processes whose reports stop.

    Not thread-safe: use it on one event loop.
    """

    def __init__(
        self,
        profile: CapacityProfile,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profile = profile
        self._seconds = seconds
        self._clock = clock
        self._workers: defaultdict[int, deque[tuple[float, WorkerLoad]]] = defaultdict(deque)
        self._processors: dict[int, tuple[float, ProcessorLoad]] = {}

    def worker(self, load: WorkerLoad) -> None:
        """Add a worker's report."""
        self._workers[load.instance].append((self._clock(), load))

    def processor(self, load: ProcessorLoad) -> None:
        """Add a processor's report."""
        self._processors[load.instance] = (self._clock(), load)

    def pool(self, kind: WorkerKind, replicas: int) -> PoolObservation:
        """Return the observation of a pool; `replicas` is the number it is scaled to."""
        self._forget()
        reports = [
            [load for _, load in kept]
            for kept in self._workers.values()
            if kept[-1][1].kind == kind
        ]
        every = [load for kept in reports for load in kept]
        return PoolObservation(
            at=self._clock(),
            replicas=replicas,
            ready=sum(not kept[-1].draining for kept in reports),
            load=sum(self._load(kind, kept) for kept in reports),
            response=_response(every),
        )

    def service(self) -> ServiceObservation:
        """Return the observation of all processors together."""
        self._forget()
        loads = [load for _, load in self._processors.values()]
        return ServiceObservation(
            active=sum(load.sessions for load in loads),
            speaking=sum(load.speaking for load in loads),
            waiting=sum(load.waiting for load in loads),
        )

    def _load(self, kind: WorkerKind, reports: list[WorkerLoad]) -> float:
        """Return one worker's mean load over its reports, in workers at their knee."""
        seconds = sum(load.seconds for load in reports)
        costs = self._profile.pool(kind)
        return sum(costs.load(load.work) * load.seconds for load in reports) / seconds

    def _forget(self) -> None:
        now = self._clock()
        for instance, kept in list(self._workers.items()):
            at, last = kept[-1]
            if now - at > STALE_INTERVALS * last.seconds:
                del self._workers[instance]
                continue
            while kept[0][0] < now - self._seconds and len(kept) > 1:
                kept.popleft()
        for instance, (at, load) in list(self._processors.items()):
            if now - at > STALE_INTERVALS * load.seconds:
                del self._processors[instance]


def _response(reports: Iterable[WorkerLoad]) -> float:
    """Return the mean of the 95th percentiles, weighted by requests.

    Returns infinity if more than 1% of the requests were refused.
    """
    requests = refused = weighted = 0.0
    for load in reports:
        number = load.requests_per_second * load.seconds
        requests += number
        refused += load.refused_per_second * load.seconds
        weighted += load.response_seconds * number
    if refused > _REFUSED_SHARE * (requests + refused):
        return math.inf
    return weighted / requests if requests else 0.0
