"""A simulated service: workers that start slowly, a controller that sees their reports.

`run` plays a trace through it. A worker at its knee carries 1, or `real_capacity` where the
profile is wrong. Sessions inside the SLO are those for whom both pools have room; workers
are paid for from the order to start until they have drained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from auricle.load.reports import PoolObservation, ServiceObservation
from benchmarks.planner.traces import STEP_SECONDS, Series, Trace

POOLS = ("encode", "pd")
# From the order of a worker until it serves (image present, weights in the page cache).
START_SECONDS = {"encode": 40.0, "pd": 120.0}
# A worker that is being stopped serves until its last segment ends.
DRAIN_SECONDS = 30.0
# Waits at the knee: the profile's, and how a worker's queue grows towards it.
RESPONSE_LIMIT = {"encode": 0.05, "pd": 0.1}
_ROOM = 0.9
_MOST_RESPONSE = 4.0
# Every controller reads signals that are one report old and have this much noise.
_NOISE = 0.02
_WORST_SECONDS = 300.0

Controller = Callable[[Mapping[str, PoolObservation], ServiceObservation], Mapping[str, int]]


@dataclass(frozen=True)
class Score:
    """The results over the scored days.

    `worst_minutes` is the mean share served in the worst five minutes that are scored.
    """

    gpu_hours: float
    slo: float
    worst_minutes: float


@dataclass(frozen=True)
class Run(Score):
    """A run with its series, which cover the whole trace."""

    replicas: Mapping[str, Series]
    share: Series
    orders: Mapping[str, list[tuple[float, int]]]

    @property
    def score(self) -> Score:
        """The results without the series."""
        return Score(self.gpu_hours, self.slo, self.worst_minutes)


class _Pool:
    def __init__(self, name: str, replicas: int, capacity: Callable[[int], float]) -> None:
        self.name = name
        self.ready = replicas
        self.starting: deque[int] = deque()  # steps at which workers become ready
        self.draining: deque[int] = deque()  # steps at which they are gone
        self._capacity = capacity
        self.recent: deque[float] = deque(maxlen=3)

    @property
    def replicas(self) -> int:
        return self.ready + len(self.starting)

    @property
    def paid(self) -> int:
        return self.replicas + len(self.draining)

    def advance(self, step: int) -> None:
        while self.starting and self.starting[0] <= step:
            self.starting.popleft()
            self.ready += 1
        while self.draining and self.draining[0] <= step:
            self.draining.popleft()

    def order(self, replicas: int, step: int) -> None:
        until_ready = round(START_SECONDS[self.name] / STEP_SECONDS)
        while self.replicas < replicas:
            self.starting.append(step + until_ready)
        while self.replicas > replicas:
            if self.starting:
                self.starting.pop()  # it has served no session yet
            else:
                self.ready -= 1
                self.draining.append(step + round(DRAIN_SECONDS / STEP_SECONDS))

    def room(self, step: int) -> float:
        return self.ready * self._capacity(step)

    def wait(self, demand: float, step: int) -> float:
        """Return the wait of queued work at this demand; it reaches the limit at the knee."""
        busy = demand / max(self.room(step), 1e-9)
        if busy < 1:
            return RESPONSE_LIMIT[self.name] * busy * (1 - _ROOM) / (1 - _ROOM * busy)
        return RESPONSE_LIMIT[self.name] * min(1 + 10 * (busy - 1), _MOST_RESPONSE)


def run(
    trace: Trace,
    controller: Controller,
    *,
    step_seconds: float = 30.0,
    real_capacity: float | Callable[[int], float] = 1.0,
    seed: int = 0,
) -> Run:
    """Run the trace under a controller that decides every `step_seconds`.

    From the first scored step on workers carry `real_capacity`; until then the profile is right.
    """
    chance = np.random.default_rng(seed)

    def capacity(step: int) -> float:
        if step < trace.scored_from:
            return 1.0
        return real_capacity if isinstance(real_capacity, float) else real_capacity(step)

    demands = {name: trace.demand(name).tolist() for name in POOLS}
    pools = {
        name: _Pool(name, max(1, int(np.ceil(demands[name][0] * 1.1))), capacity) for name in POOLS
    }
    every = round(step_seconds / STEP_SECONDS)
    steps = len(trace.sessions)
    share, paid = np.empty(steps), np.empty(steps)
    replicas = {name: np.empty(steps) for name in POOLS}
    orders: dict[str, list[tuple[float, int]]] = {name: [] for name in POOLS}
    for step in range(steps):
        for name, pool in pools.items():
            pool.advance(step)
            replicas[name][step] = pool.replicas
        shares = {n: p.room(step) / demands[n][step] for n, p in pools.items()}
        share[step] = min(1.0, *shares.values())
        for name, pool in pools.items():
            # A session that is not admitted adds no demand to either pool.
            pool.recent.append(demands[name][step] * share[step])
        paid[step] = sum(pool.paid for pool in pools.values())
        if step % every:
            continue
        # Demand that another pool cannot serve does not reach this one.
        seen = {
            name: _observe(
                pool,
                demands[name][step] * min(1.0, *(s for n, s in shares.items() if n != name)),
                step,
                chance,
            )
            for name, pool in pools.items()
        }
        wanted = controller(seen, _service(trace, step, float(share[step]), chance))
        for name, count in wanted.items():
            if count != pools[name].replicas:
                orders[name].append((step * STEP_SECONDS, count - pools[name].replicas))
                pools[name].order(count, step)
    scored = slice(trace.scored_from, None)
    return Run(
        gpu_hours=float(paid[scored].sum() * STEP_SECONDS / 3600),
        slo=float(np.average(share[scored], weights=trace.speaking[scored])),
        replicas=replicas,
        share=share,
        orders=orders,
        worst_minutes=_worst_minutes(share[scored]),
    )


def _worst_minutes(share: Series) -> float:
    minutes = round(_WORST_SECONDS / STEP_SECONDS)
    return float(np.convolve(share, np.ones(minutes) / minutes, "valid").min())


def _observe(pool: _Pool, demand: float, step: int, chance: np.random.Generator) -> PoolObservation:
    return PoolObservation(
        at=step * STEP_SECONDS,
        replicas=pool.replicas,
        ready=pool.ready,
        load=float(sum(pool.recent) / len(pool.recent) * chance.normal(1, _NOISE)),
        response=float(pool.wait(demand, step) * chance.normal(1, _NOISE)),
    )


def _service(
    trace: Trace, step: int, share: float, chance: np.random.Generator
) -> ServiceObservation:
    """Return the service of a step; refused clients retry, and each retry counts, roughly."""
    active = max(1, round(trace.sessions[step] * share))
    waiting = (trace.sessions[step] - active) * chance.normal(1, 0.1) if share < 1 else 0.0
    return ServiceObservation(active, round(trace.speaking[step] * share), max(0.0, waiting))
