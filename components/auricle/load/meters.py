"""Measures a worker's load between two reports. No I/O but the clock."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from auricle.core.errors import AuricleError, Overloaded, WorkerUnavailable
from auricle.load.reports import DemandReport

# Values kept per interval for percentiles, the newest ones.
_KEPT = 4096
_SHARE = 0.95


@dataclass(frozen=True)
class Interval:
    """Measurements over `seconds`.

    `work` is per second, by unit. `under_way` is the mean number of requests in progress and
    `busy` the share of time with at least one. `failed_per_second` counts
    requests that failed by this worker's fault. `response_seconds` and `queue_wait_seconds` are
    95th percentiles, 0 if nothing was measured.
    """

    seconds: float
    work: dict[str, float]
    busy: float
    under_way: float
    requests_per_second: float
    refused_per_second: float
    failed_per_second: float
    response_seconds: float
    queue_wait_seconds: float


class WorkMeter:
    """Measures one worker's requests. Not thread-safe: use it on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self._since = self._advanced_at = clock()
        self._busy_seconds = self._held_seconds = 0.0
        self._reset()

    def _reset(self) -> None:
        self._work: Counter[str] = Counter()
        self._requests = self._refused = self._failures = 0
        self._responses: deque[float] = deque(maxlen=_KEPT)
        self._waits: deque[float] = deque(maxlen=_KEPT)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Measure the block as one request; if it raises Overloaded, count it as refused.

        Any other error counts as failed, unless the request was wrong or incomplete.
        """
        began = self._advance()
        self.in_flight += 1
        try:
            yield
            self._requests += 1
            self._responses.append(self._clock() - began)
        except Overloaded:
            self._refused += 1
            raise
        except Exception as error:
            self._failures += _is_own_failure(error)
            raise
        finally:
            self._advance()
            self.in_flight -= 1

    def did(self, **units: float) -> None:
        """Add work that was done, by unit."""
        for unit, amount in units.items():
            self._work[unit] += amount  # type: ignore[assignment]  # fractions count too

    def waited(self, seconds: float) -> None:
        """Add the seconds that a request waited until work on it began."""
        self._waits.append(seconds)

    def take(self) -> Interval:
        """Return the measurements since the previous call, and start a new interval."""
        now = self._advance()
        seconds = max(now - self._since, 1e-6)
        found = Interval(
            seconds=seconds,
            work={unit: amount / seconds for unit, amount in self._work.items()},
            busy=self._busy_seconds / seconds,
            under_way=self._held_seconds / seconds,
            requests_per_second=self._requests / seconds,
            refused_per_second=self._refused / seconds,
            failed_per_second=self._failures / seconds,
            response_seconds=_percentile(self._responses),
            queue_wait_seconds=_percentile(self._waits),
        )
        self._since = now
        self._busy_seconds = self._held_seconds = 0.0
        self._reset()
        return found

    def _advance(self) -> float:
        """Account for the requests in progress since the previous call; return the time."""
        now = self._clock()
        passed, self._advanced_at = now - self._advanced_at, now
        self._held_seconds += passed * self.in_flight
        self._busy_seconds += passed if self.in_flight else 0.0
        return now


def _percentile(values: deque[float]) -> float:
    return float(np.quantile(values, _SHARE)) if values else 0.0


def _is_own_failure(error: Exception) -> bool:
    """Whether a request failed by its worker's fault, not by its own."""
    if isinstance(error, AuricleError):
        return isinstance(error, WorkerUnavailable) or error.code == AuricleError.code
    return True


class DemandMeter:
    """Measures a processor's demand for optional pools: sessions and seconds of speech.

    Demand is counted by annotation, such as `words`. No I/O but the clock. Not thread-safe: use it
    on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._sessions: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()

    @contextmanager
    def session(self, annotation: str) -> Iterator[None]:
        """Count a session that requests the annotation while the block runs."""
        self._sessions[annotation] += 1
        try:
            yield
        finally:
            self._sessions[annotation] -= 1

    def speech(self, annotation: str, seconds: float) -> None:
        """Add speech for which the annotation was requested, whether or not there was a worker."""
        self._seconds[annotation] += seconds  # type: ignore[assignment]  # fractions count too

    @property
    def sessions(self) -> Mapping[str, int]:
        """The number of open sessions by requested annotation."""
        return self._sessions

    def take(self) -> dict[str, DemandReport]:
        """Return the demand since the previous call."""
        now = self._clock()
        passed, self._since = max(now - self._since, 1e-6), now
        spoken, self._seconds = self._seconds, Counter()
        return {
            annotation: DemandReport(self._sessions[annotation], spoken[annotation] / passed)
            for annotation in sorted(self._sessions | spoken)
        }
