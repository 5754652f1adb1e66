"""The controllers compared with the planner: static sizing, an HPA, and a clairvoyant bound."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from auricle.load.reports import PoolObservation, ServiceObservation
from benchmarks.planner.cluster import POOLS, RESPONSE_LIMIT, START_SECONDS, Run, Score, run
from benchmarks.planner.traces import STEP_SECONDS, Series, Trace

# The share of a request's time at the knee that is its own work, without waiting.
_WORK_SHARE = 0.3
_LEAST_BUSY = 0.01
# An operator's settings: the target queue, as a share of the queue at the knee, and the window (s)
# that delays shrinking.
HPA_GRID = tuple(product((0.25, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5), (60.0, 120.0, 300.0)))
_HPA_STEP_SECONDS = 20.0


@dataclass(frozen=True)
class Static:
    """Keeps the number of workers constant."""

    replicas: Mapping[str, int]

    def __call__(
        self, seen: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> Mapping[str, int]:
        return self.replicas


def peak_sizing(trace: Trace, capacity: float = 1.0) -> Static:
    """Return the workers that the largest minute of the scored days needs."""
    minute = round(60 / STEP_SECONDS)
    kernel = np.ones(minute) / minute
    return Static(
        {
            pool: math.ceil(
                np.convolve(trace.demand(pool)[trace.scored_from :], kernel, "valid").max()
                / capacity
            )
            for pool in POOLS
        }
    )


class Hpa:
    """Kubernetes' HorizontalPodAutoscaler on the queue of each pool's workers.

    Its algorithm: desired = ceil(replicas · metric ÷ target), no change within 10%, pods that
    are starting count as idle when scaling up, and the largest recommendation of the last
    `window_seconds` applies (https://kubernetes.io/docs/concepts/workloads/
    autoscaling/horizontal-pod-autoscale/#algorithm-details).
    """

    _TOLERANCE = 0.1

    def __init__(self, target: float, window_seconds: float) -> None:
        """`target` is the desired queue, as a share of the queue at the knee."""
        self._target = target
        self._window = window_seconds
        self._wishes: dict[str, deque[tuple[float, int]]] = {pool: deque() for pool in POOLS}

    def __call__(
        self, seen: Mapping[str, PoolObservation], service: ServiceObservation
    ) -> Mapping[str, int]:
        return {name: self._wish(name, pool) for name, pool in seen.items()}

    def _wish(self, name: str, pool: PoolObservation) -> int:
        ratio = _queue(name, pool) / self._target
        if ratio > 1 and pool.ready < pool.replicas:
            ratio = max(1.0, ratio * pool.ready / pool.replicas)
        near = abs(ratio - 1) <= self._TOLERANCE
        base = pool.ready if ratio < 1 else pool.replicas
        wish = pool.replicas if near else max(1, math.ceil(base * ratio))
        wishes = self._wishes[name]
        wishes.append((pool.at, wish))
        while wishes[0][0] < pool.at - self._window:
            wishes.popleft()
        if wish >= pool.replicas:
            return wish
        return min(pool.replicas, max(w for _, w in wishes))


def hpa_run(trace: Trace, how: tuple[float, float]) -> Run:
    """Run the trace under one HPA of the grid."""
    return run(trace, Hpa(*how), step_seconds=_HPA_STEP_SECONDS)


def hpa_scores(trace: Trace) -> tuple[Score, ...]:
    """Run the trace under every HPA of the grid, in its order."""
    return tuple(hpa_run(trace, how).score for how in HPA_GRID)


def _queue(name: str, pool: PoolObservation) -> float:
    """Return the waiting and running requests per worker; 1 at the knee.

    By Little's law, it is the arrival rate times the time in the system. Part of that time is work,
    even if no request waits.
    """
    stays = _WORK_SHARE + (1 - _WORK_SHARE) * pool.response / RESPONSE_LIMIT[name]
    return max(pool.utilisation, _LEAST_BUSY) * stays


def clairvoyant_hours(trace: Trace, slo: float, capacity: float = 1.0) -> float:
    """Return a lower bound on the GPU-hours that hold the SLO over the scored days.

    Each pool is bounded by itself, so both together can only cost more. The k-th worker serves the
    demand between k-1 and k. At a given price for served sessions, dynamic programming decides for
    every k when that worker is worth its cost and the cost of its start. The best price gives the
    Lagrangian dual, which no schedule can beat.
    """
    return sum(_pool_bound(trace, pool, slo, capacity) for pool in POOLS)


def _pool_bound(trace: Trace, pool: str, slo: float, capacity: float) -> float:
    every = 3  # half minutes; their mean demand, which can only lower the bound
    demand = _means(trace.demand(pool)[trace.scored_from :], every) / capacity
    weight = _means(trace.speaking[trace.scored_from :], every)
    weight = weight / weight.sum()
    hours = every * STEP_SECONDS / 3600
    levels = np.arange(math.ceil(demand.max()))
    served = np.clip(demand[:, None] - levels, 0, 1) * (weight / demand)[:, None]
    start = START_SECONDS[pool] / 3600

    def dual(price: float) -> float:
        return price * slo - _best(served, price, hours, start)

    # The price of all sessions is of the order of all hours; the dual is concave in it.
    low, high = 0.0, 200.0 * hours * float(demand.sum()) + 1.0
    for _ in range(24):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        if dual(a) < dual(b):
            low = a
        else:
            high = b
    return dual((low + high) / 2)


def _best(served: Series, price: float, hours: float, start: float) -> float:
    """Return the maximum of `price` · served - cost over all schedules of all levels."""
    on = np.zeros(served.shape[1])
    off = np.zeros(served.shape[1])
    gain = price * served - hours
    for step in range(len(gain)):
        on, off = np.maximum(on, off - start) + gain[step], np.maximum(off, on)
    return float(np.maximum(on, off).sum())


def _means(series: Series, every: int) -> Series:
    length = len(series) // every * every
    return np.asarray(series[:length].reshape(-1, every).mean(axis=1))
