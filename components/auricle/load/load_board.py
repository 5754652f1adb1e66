"""Aggregates the reports of all processes for the planner. No I/O but the clock."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from auricle.load.capacity_profile import CapacityProfile
from auricle.load.pools import ASKED_WORK, OPTIONAL_POOLS, POOLS
from auricle.load.reports import (
    STALE_INTERVALS,
    PoolKind,
    PoolObservation,
    ProcessorLoad,
    ServiceObservation,
    WorkerLoad,
)

T = TypeVar("T")
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
        *,
        idle_seconds: float = math.inf,
    ) -> None:
        """An optional pool is in demand until `idle_seconds` after the last request for it."""
        self._profile = profile
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._clock = clock
        # Earlier demand is unknown.
        self._demanded_at = {pool.annotation: clock() for pool in OPTIONAL_POOLS}
        self._workers: defaultdict[int, deque[tuple[float, WorkerLoad]]] = defaultdict(deque)
        self._processors: defaultdict[int, deque[tuple[float, ProcessorLoad]]] = defaultdict(deque)

    def worker(self, load: WorkerLoad) -> None:
        """Add a worker's report."""
        self._workers[load.instance].append((self._clock(), load))

    def processor(self, load: ProcessorLoad) -> None:
        """Add a processor's report."""
        now = self._clock()
        self._processors[load.instance].append((now, load))
        for what, demand in load.asked.items():
            if demand.sessions or demand.speech_seconds:
                self._demanded_at[what] = now

    def in_demand(self, kind: PoolKind) -> bool:
        """Return whether the pool is needed: it is required, or was requested lately."""
        what = POOLS[kind].annotation
        return not what or self._clock() - self._demanded_at[what] <= self._idle_seconds

    def ready(self, kind: PoolKind) -> int:
        """Return how many workers of a pool report and are not draining."""
        self._forget()
        last = (kept[-1][1] for kept in self._workers.values())
        return sum(load.kind == kind and not load.draining for load in last)

    def pool(self, kind: PoolKind, replicas: int) -> PoolObservation:
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
            ready=self.ready(kind),
            load=self._demand(kind)
            if POOLS[kind].annotation
            else sum(self._load(kind, kept) for kept in reports),
            response=_response(every),
            in_demand=self.in_demand(kind),
        )

    def service(self) -> ServiceObservation:
        """Return the observation of all processors together."""
        self._forget()
        loads = [kept[-1][1] for kept in self._processors.values()]
        return ServiceObservation(
            active=sum(load.sessions for load in loads),
            speaking=sum(load.speaking for load in loads),
            waiting=sum(load.waiting for load in loads),
        )

    def _demand(self, kind: PoolKind) -> float:
        """Return the demand for an optional pool, in workers; it may have none."""
        what, demand = POOLS[kind].annotation, 0.0
        for kept in self._processors.values():
            seconds = sum(load.seconds for _, load in kept)
            spoken = sum(
                load.asked[what].speech_seconds * load.seconds
                for _, load in kept
                if what in load.asked
            )
            demand += spoken / seconds
        (unit,) = ASKED_WORK
        return self._profile.pool(kind).load({unit: demand})

    def _load(self, kind: PoolKind, reports: list[WorkerLoad]) -> float:
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
            _cut(kept, now - self._seconds)
        for instance, reports in list(self._processors.items()):
            at, latest = reports[-1]
            if now - at > STALE_INTERVALS * latest.seconds:
                del self._processors[instance]
                continue
            _cut(reports, now - self._seconds)


def _cut(kept: deque[tuple[float, T]], before: float) -> None:
    """Drop older reports, except for the latest one."""
    while kept[0][0] < before and len(kept) > 1:
        kept.popleft()


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
