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


@dataclass(frozen=True)
class Reading:
    """One pool as its controllers see it, with a value for each of the runs.

    `at` is in seconds, `load` in workers at the knee, `response` in seconds.
    """

    at: float
    replicas: Series
    ready: Series
    load: Series
    response: Series

    @property
    def utilisation(self) -> Series:
        """The load of a worker that is ready."""
        return np.asarray(self.load / np.maximum(self.ready, 1.0))


@dataclass(frozen=True)
class Clients:
    """The clients of all runs: open sessions, those speaking, and refused ones that retry."""

    active: Series
    speaking: Series
    waiting: Series


# Returns the wanted replicas of each pool: a number, or one for each run.
Controller = Callable[[Mapping[str, Reading], Clients], Mapping[str, float | Series]]


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
    """The workers of one pool in every run."""

    def __init__(self, name: str, runs: int, replicas: int, capacity: float) -> None:
        self.name = name
        self.capacity = capacity
        self.ready = np.full(runs, float(replicas))
        # By step, modulo their length: workers that become ready, and those that are gone.
        self._starting = np.zeros((round(START_SECONDS[name] / STEP_SECONDS) + 1, runs))
        self._draining = np.zeros((round(DRAIN_SECONDS / STEP_SECONDS) + 1, runs))
        self.coming = np.zeros(runs)
        self._going = np.zeros(runs)
        self.recent: deque[Series] = deque(maxlen=3)

    @property
    def replicas(self) -> Series:
        return np.asarray(self.ready + self.coming)

    @property
    def paid(self) -> Series:
        return np.asarray(self.ready + self.coming + self._going)

    @property
    def room(self) -> Series:
        return np.asarray(self.ready * self.capacity)

    def advance(self, step: int) -> None:
        started = self._starting[step % len(self._starting)]
        self.ready += started
        self.coming -= started
        started[:] = 0.0
        gone = self._draining[step % len(self._draining)]
        self._going -= gone
        gone[:] = 0.0

    def order(self, more: Series, step: int) -> None:
        """Start `more` workers that are ready after the start-up time, or stop some."""
        slots = len(self._starting)
        started = np.maximum(more, 0.0)
        self._starting[(step - 1) % slots] += started
        self.coming += started
        less = np.maximum(-more, 0.0)
        if not less.any():
            return
        for age in range(1, slots):  # the latest first: they have served no session yet
            slot = self._starting[(step - age) % slots]
            stopped = np.minimum(slot, less)
            slot -= stopped
            self.coming -= stopped
            less = less - stopped
        self.ready -= less
        self._draining[(step - 1) % len(self._draining)] += less
        self._going += less

    def wait(self, demand: Series) -> Series:
        """Return the wait of queued work at this demand; it reaches the limit at the knee."""
        busy = demand / np.maximum(self.room, 1e-9)
        below = np.minimum(busy, 1.0)
        shorter = below * (1 - _ROOM) / (1 - _ROOM * below)
        longer = np.minimum(1 + 10 * (busy - 1), _MOST_RESPONSE)
        return np.asarray(RESPONSE_LIMIT[self.name] * np.where(busy < 1, shorter, longer))


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
    (found,) = run_all(
        trace, controller, 1, step_seconds=step_seconds, real_capacity=real_capacity, seed=seed
    )
    return found


def run_all(
    trace: Trace,
    controller: Controller,
    runs: int,
    *,
    step_seconds: float,
    real_capacity: float | Callable[[int], float] = 1.0,
    seed: int = 0,
) -> list[Run]:
    """Run the trace `runs` times at once, with the same noise; `controller` decides for all."""
    chance = np.random.default_rng(seed)

    def capacity(step: int) -> float:
        if step < trace.scored_from:
            return 1.0
        return real_capacity if isinstance(real_capacity, float) else real_capacity(step)

    demands = {name: trace.demand(name).tolist() for name in POOLS}
    pools = {
        name: _Pool(name, runs, max(1, int(np.ceil(demands[name][0] * 1.1))), capacity(0))
        for name in POOLS
    }
    every = round(step_seconds / STEP_SECONDS)
    steps = len(trace.sessions)
    share, paid = np.empty((steps, runs)), np.empty((steps, runs))
    replicas = {name: np.empty((steps, runs)) for name in POOLS}
    orders: list[dict[str, list[tuple[float, int]]]] = [
        {name: [] for name in POOLS} for _ in range(runs)
    ]
    for step in range(steps):
        for name, pool in pools.items():
            pool.advance(step)
            pool.capacity = capacity(step)
            replicas[name][step] = pool.replicas
        shares = {n: p.room / demands[n][step] for n, p in pools.items()}
        served = np.minimum(1.0, np.minimum(*shares.values()))
        share[step] = served
        for name, pool in pools.items():
            # A session that is not admitted adds no demand to either pool.
            pool.recent.append(demands[name][step] * served)
        paid[step] = sum(pool.paid for pool in pools.values())
        if step % every:
            continue
        # Demand that another pool cannot serve does not reach this one.
        seen = {
            name: _observe(
                pool,
                demands[name][step] * np.minimum(1.0, *(s for n, s in shares.items() if n != name)),
                step,
                chance,
            )
            for name, pool in pools.items()
        }
        wanted = controller(seen, _clients(trace, step, served, chance))
        for name, count in wanted.items():
            more = np.asarray(count - pools[name].replicas)
            changed = np.flatnonzero(more)
            if len(changed):
                pools[name].order(more, step)
            for one in changed:
                orders[one][name].append((step * STEP_SECONDS, int(more[one])))
    scored = slice(trace.scored_from, None)
    hours = paid[scored].sum(axis=0) * STEP_SECONDS / 3600
    slo = np.average(share[scored], axis=0, weights=trace.speaking[scored])
    return [
        Run(
            gpu_hours=float(hours[one]),
            slo=float(slo[one]),
            replicas={name: series[:, one] for name, series in replicas.items()},
            share=share[:, one],
            orders=orders[one],
            worst_minutes=_worst_minutes(share[scored, one]),
        )
        for one in range(runs)
    ]


def _worst_minutes(share: Series) -> float:
    minutes = round(_WORST_SECONDS / STEP_SECONDS)
    return float(np.convolve(share, np.ones(minutes) / minutes, "valid").min())


def _observe(pool: _Pool, demand: Series, step: int, chance: np.random.Generator) -> Reading:
    return Reading(
        at=step * STEP_SECONDS,
        replicas=pool.replicas,
        ready=pool.ready.copy(),
        load=np.asarray(sum(pool.recent) / len(pool.recent) * chance.normal(1, _NOISE)),
        response=np.asarray(pool.wait(demand) * chance.normal(1, _NOISE)),
    )


def _clients(trace: Trace, step: int, share: Series, chance: np.random.Generator) -> Clients:
    """Return the clients of a step; refused ones retry, and each retry counts, roughly."""
    active = np.maximum(1.0, np.round(trace.sessions[step] * share))
    waiting = np.where(share < 1, trace.sessions[step] - active, 0.0) * chance.normal(1, 0.1)
    return Clients(active, np.round(trace.speaking[step] * share), np.maximum(0.0, waiting))
