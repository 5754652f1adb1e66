"""What a worker did since it was last asked. Pure but for the clock."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from auricle.errors import Overloaded

# Of each interval; of more the newest say enough.
_KEPT = 4096
_SHARE = 0.95


@dataclass(frozen=True)
class Interval:
    """Rates over `seconds`; percentiles are 95th, 0 where nothing was measured.

    `under_way` is the mean number of requests worked on, `busy` the share of time with any.
    """

    seconds: float
    work: dict[str, float]
    busy: float
    under_way: float
    requests_per_second: float
    refused_per_second: float
    response_seconds: float
    queue_wait_seconds: float


class WorkMeter:
    """Counts one worker's requests; not thread-safe, as it lives on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self._since = self._looked = clock()
        self._busy_seconds = self._held_seconds = 0.0
        self._reset()

    def _reset(self) -> None:
        self._work: Counter[str] = Counter()
        self._requests = self._refused = 0
        self._responses: deque[float] = deque(maxlen=_KEPT)
        self._waits: deque[float] = deque(maxlen=_KEPT)

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is worked on; one that is answered with Overloaded is counted apart."""
        began = self._look()
        self.in_flight += 1
        try:
            yield
            self._requests += 1
            self._responses.append(self._clock() - began)
        except Overloaded:
            self._refused += 1
            raise
        finally:
            self._look()
            self.in_flight -= 1

    def did(self, **units: float) -> None:
        """Work that was done, by unit."""
        for unit, amount in units.items():
            self._work[unit] += amount  # type: ignore[assignment]  # fractions count too

    def waited(self, seconds: float) -> None:
        """So long a request waited until work on it began."""
        self._waits.append(seconds)

    def take(self) -> Interval:
        """What was counted since the last call."""
        now = self._look()
        seconds = max(now - self._since, 1e-6)
        found = Interval(
            seconds=seconds,
            work={unit: amount / seconds for unit, amount in self._work.items()},
            busy=self._busy_seconds / seconds,
            under_way=self._held_seconds / seconds,
            requests_per_second=self._requests / seconds,
            refused_per_second=self._refused / seconds,
            response_seconds=_percentile(self._responses),
            queue_wait_seconds=_percentile(self._waits),
        )
        self._since = now
        self._busy_seconds = self._held_seconds = 0.0
        self._reset()
        return found

    def _look(self) -> float:
        """Time goes on: what was under way since the last look is accounted for."""
        now = self._clock()
        passed, self._looked = now - self._looked, now
        self._held_seconds += passed * self.in_flight
        self._busy_seconds += passed if self.in_flight else 0.0
        return now


def _percentile(values: deque[float]) -> float:
    return float(np.quantile(values, _SHARE)) if values else 0.0
