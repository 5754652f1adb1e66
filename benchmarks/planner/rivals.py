"""The controllers compared with the planner: static sizing, an HPA, and a clairvoyant bound."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.planner.cluster import (
    POOLS,
    RESPONSE_LIMIT,
    START_SECONDS,
    Clients,
    Reading,
    Run,
    Score,
    run_all,
)
from benchmarks.planner.traces import STEP_SECONDS, Series, Trace

# The share of a request's time at the knee that is its own work, without waiting.
_WORK_SHARE = 0.3
_LEAST_BUSY = 0.01
# An operator's settings: the target queue, as a share of the queue at the knee, and the window (s)
# that delays shrinking.
HPA_GRID = tuple(product((0.25, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5), (60.0, 120.0, 300.0)))
_HPA_STEP_SECONDS = 20.0
# Prices that the bound tries at once, and how often it narrows their range.
_PRICES, _REFINED = 16, 5


@dataclass(frozen=True)
class Static:
    """Keeps the number of workers constant."""

    replicas: Mapping[str, int]

    def __call__(self, seen: Mapping[str, Reading], clients: Clients) -> Mapping[str, float]:
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

    def __init__(self, grid: Sequence[tuple[float, float]]) -> None:
        """Decide for a run for each setting of `grid`: target queue, and window in seconds.

        The target is a share of the queue at the knee.
        """
        self._target = np.array([target for target, _ in grid])
        self._steps = np.array([window // _HPA_STEP_SECONDS for _, window in grid])
        self._wishes: dict[str, deque[Series]] = {
            pool: deque(maxlen=int(self._steps.max()) + 1) for pool in POOLS
        }

    def __call__(self, seen: Mapping[str, Reading], clients: Clients) -> Mapping[str, Series]:
        return {name: self._wish(name, pool) for name, pool in seen.items()}

    def _wish(self, name: str, pool: Reading) -> Series:
        ratio = _queue(name, pool) / self._target
        idle = np.maximum(1.0, ratio * pool.ready / pool.replicas)
        ratio = np.where((ratio > 1) & (pool.ready < pool.replicas), idle, ratio)
        base = np.where(ratio < 1, pool.ready, pool.replicas)
        wish = np.maximum(1.0, np.ceil(base * ratio))
        wish = np.where(np.abs(ratio - 1) <= self._TOLERANCE, pool.replicas, wish)
        wishes = self._wishes[name]
        wishes.append(wish)
        # A wish counts until its age exceeds the window of its run.
        ages = np.arange(len(wishes))[::-1, None]
        most = np.where(ages <= self._steps, np.array(wishes), 0.0).max(axis=0)
        return np.where(wish >= pool.replicas, wish, np.minimum(pool.replicas, most))


def hpa_runs(trace: Trace, grid: Sequence[tuple[float, float]] = HPA_GRID) -> list[Run]:
    """Run the trace under an HPA of each setting, in the order of `grid`."""
    return run_all(trace, Hpa(grid), len(grid), step_seconds=_HPA_STEP_SECONDS)


def hpa_scores(trace: Trace) -> tuple[Score, ...]:
    """Return the scores of `hpa_runs` under every HPA of the grid."""
    return tuple(found.score for found in hpa_runs(trace))


def _queue(name: str, pool: Reading) -> Series:
    """Return the waiting and running requests per worker; 1 at the knee.

    By Little's law, it is the arrival rate times the time in the system. Part of that time is work,
    even if no request waits.
    """
    stays = _WORK_SHARE + (1 - _WORK_SHARE) * pool.response / RESPONSE_LIMIT[name]
    return np.asarray(np.maximum(pool.utilisation, _LEAST_BUSY) * stays)


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
    # The price of all sessions is of the order of all hours; the dual is concave in it.
    low, high = 0.0, 200.0 * hours * float(demand.sum()) + 1.0
    best = 0.0
    for _ in range(_REFINED):
        prices = np.linspace(low, high, _PRICES)
        dual = prices * slo - _best(served, prices, hours, start)
        at = int(dual.argmax())
        best = max(best, float(dual[at]))
        low, high = float(prices[max(at - 1, 0)]), float(prices[min(at + 1, _PRICES - 1)])
    return best


def _best(served: Series, prices: Series, hours: float, start: float) -> Series:
    """Return, for each price, the maximum of price · served - cost over all schedules."""
    on = np.zeros((len(prices), served.shape[1]))
    off = np.zeros_like(on)
    for step in served:
        on, off = np.maximum(on, off - start), np.maximum(off, on)
        on += prices[:, None] * step - hours
    return np.asarray(np.maximum(on, off).sum(axis=1))


def _means(series: Series, every: int) -> Series:
    length = len(series) // every * every
    return np.asarray(series[:length].reshape(-1, every).mean(axis=1))
