"""Machines that decode chunks, in simulated time.

There are two queueing models, so that tuning does not fit only one of them: a batching worker,
like ours, and processors that all requests share, like a CPU. Speeds change in mid-run.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Done = Callable[[], None]
# Time of a chunk outside of the machine (frontend, network, processor), in seconds.
_PATH_SECONDS = 0.015
# Service times of the demo graph differ by about a third from chunk to chunk (lengths of texts),
# and by half from session to session (lengths of segments). With these values, the shares of
# sessions inside the SLO at the capacity and 14% and 32% above it are close to the demo graph's.
CHUNK_SPREAD, SESSION_SPREAD = 0.35, 0.5
# At about this interval, other work occupies the machine for a moment.
_HICCUP_EVERY_SECONDS, _HICCUP_SECONDS = 15.0, (0.03, 0.15)


class Simulation:
    """Runs the scheduled calls in order."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.dice = random.Random(seed)
        self._calendar: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call at that time, or at once if it has passed."""
        heapq.heappush(self._calendar, (max(when, self.now), next(self._number), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call after a delay."""
        self.at(self.now + seconds, call)

    def run(self, until: float) -> None:
        """Run to that time."""
        while self._calendar and self._calendar[0][0] <= until:
            self.now, _, call = heapq.heappop(self._calendar)
            call()
        self.now = until


class Machine(Protocol):
    """Decodes chunks; `speed` may be changed at any time, 0 stops it."""

    speed: float

    def submit(self, work: float, done: Done) -> None:
        """Decode a chunk of `work` times the usual size, then call `done`."""
        ...


def spread(dice: random.Random, sigma: float) -> float:
    """A factor with a mean of 1 and a logarithm that deviates by `sigma`."""
    return dice.lognormvariate(-sigma * sigma / 2, sigma)


@dataclass(frozen=True)
class BatchCost:
    """Seconds of one pass: `fixed` for any batch, and `each` for every chunk."""

    fixed: float = 0.012
    each: float = 0.015
    most: int = 32


class Batching:
    """`workers` workers, each decodes its whole queue as one batch."""

    def __init__(self, sim: Simulation, cost: BatchCost, workers: int = 1) -> None:
        self.speed = 1.0
        self._sim, self._cost = sim, cost
        self._queue: list[tuple[float, Done]] = []
        self._free = workers
        self._dead = 0
        self._stalled_until = 0.0
        _hiccups(sim, self._stall)

    def submit(self, work: float, done: Done) -> None:
        """See Machine."""
        self._queue.append((work, done))
        self._begin()

    def lose(self, workers: int, seconds: float) -> None:
        """Make that number of workers unavailable for a time."""
        self._dead += workers

        def back() -> None:
            self._dead -= workers
            self._begin()

        self._sim.after(seconds, back)

    def _stall(self, seconds: float) -> None:
        self._stalled_until = self._sim.now + seconds

    def _begin(self) -> None:
        while self._free - self._dead > 0 and self._queue:
            batch = self._queue[: self._cost.most]
            del self._queue[: len(batch)]
            self._free -= 1
            work = sum(work for work, _ in batch)
            seconds = (self._cost.fixed + self._cost.each * work) / self.speed
            wait = max(0.0, self._stalled_until - self._sim.now)
            self._sim.after(wait + seconds, lambda batch=batch: self._end(batch))

    def _end(self, batch: list[tuple[float, Done]]) -> None:
        self._free += 1
        for _, done in batch:
            self._sim.after(_PATH_SECONDS / self.speed, done)
        self._begin()


class Sharing:
    """`cores` that all chunks share equally; one chunk uses one core at most."""

    def __init__(self, sim: Simulation, seconds: float = 0.02, cores: int = 1) -> None:
        self._sim, self._seconds, self._cores = sim, seconds, cores
        self._speed = 1.0
        self._stalled = False
        self._done_so_far = 0.0  # work that each chunk in progress since the start would have got
        self._at = 0.0
        self._heap: list[tuple[float, int, Done]] = []
        self._number = itertools.count()
        self._version = 0
        _hiccups(sim, self._stall)

    @property
    def speed(self) -> float:
        """See Machine."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._advance()
        self._speed = speed
        self._plan()

    def submit(self, work: float, done: Done) -> None:
        """See Machine."""
        self._advance()
        end = self._done_so_far + work * self._seconds
        heapq.heappush(self._heap, (end, next(self._number), done))
        self._plan()

    def _stall(self, seconds: float) -> None:
        self._advance()
        self._stalled = True
        self._plan()

        def over() -> None:
            self._advance()
            self._stalled = False
            self._plan()

        self._sim.after(seconds, over)

    def _rate(self) -> float:
        if not self._heap or self._stalled:
            return 0.0
        return self._speed * min(1.0, self._cores / len(self._heap))

    def _advance(self) -> None:
        self._done_so_far += (self._sim.now - self._at) * self._rate()
        self._at = self._sim.now

    def _plan(self) -> None:
        self._version += 1
        if (rate := self._rate()) > 0:
            version = self._version
            wait = (self._heap[0][0] - self._done_so_far) / rate
            self._sim.after(max(0.0, wait), lambda: self._end(version))

    def _end(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        _, _, done = heapq.heappop(self._heap)
        self._sim.after(_PATH_SECONDS / self._speed, done)
        self._plan()


def _hiccups(sim: Simulation, stall: Callable[[float], None]) -> None:
    def one() -> None:
        stall(sim.dice.uniform(*_HICCUP_SECONDS))
        sim.after(sim.dice.expovariate(1 / _HICCUP_EVERY_SECONDS), one)

    sim.after(sim.dice.expovariate(1 / _HICCUP_EVERY_SECONDS), one)
