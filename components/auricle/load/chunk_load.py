"""Measures how long chunks take from audio to text. No I/O but the clock."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

WINDOW_SECONDS = 10.0
_FRESH_SECONDS = 0.25  # minimum time between two computations of the percentile
_SHARE = 0.95
_FEWEST = 5  # the 95th percentile of fewer chunks is meaningless
# The interval of `tail`: short enough to detect a change within a session's length, long enough
# for a hundred chunks of a machine that carries a dozen sessions.
TAIL_SECONDS = 5.0
_STRAGGLERS = 3  # fewer do not make a tail
# The 99.7th percentile of a few hundred chunks is one chunk. So it is extrapolated from the latest
# three tenths of them: peaks over a threshold, with an exponential excess (Pickands, 1975, with a
# shape of 0). It is as noisy as the 95th percentile: half as noisy as the single chunk.
_PEAKS_SHARE, _RARE_SHARE = 0.3, 0.003
_FEWEST_FOR_PEAKS = 20


@dataclass
class TimedChunk:
    """A chunk in progress. Set `counts` to False if a lost worker made it slow, not load."""

    counts: bool = True


@dataclass(frozen=True)
class Tail:
    """How late the latest of the last seconds' chunks were, in seconds; 0 if too few are known.

    `p95` is the 95th percentile, `p997` the 99.7th one, extrapolated, and not below `p95`.
    """

    p95: float = 0.0
    p997: float = 0.0


@dataclass(frozen=True)
class _Begun:
    arrived: float
    due: float


class ChunkLoad:
    """Measures the time from a chunk's audio to its text, over this processor's live sessions.

    This end-to-end latency rises whichever part lacks capacity: encode workers, PD workers or
    this process. Not thread-safe: use it on one event loop.
    """

    def __init__(self, target_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`target_seconds` is the target of the 95th percentile; `clock` gives seconds."""
        self._target = target_seconds
        self._clock = clock
        self._taken: deque[tuple[float, float]] = deque()  # (when, seconds)
        self._late: deque[tuple[float, float]] = deque()  # the same, since `due`
        self._begun: dict[int, _Begun] = {}
        self._next = 0
        self._computed_at = float("-inf")
        self._percentile = 0.0

    @contextmanager
    def chunk(self, arrived: float, due: float | None = None) -> Iterator[TimedChunk]:
        """Measure the block as one chunk, whose audio arrived at `arrived` on the clock.

        `due` is when the first grid point that it covers could have been decoded: earlier than
        `arrived` if grid points were skipped. A chunk whose block raises is not counted.
        """
        number, self._next = self._next, self._next + 1
        self._begun[number] = begun = _Begun(arrived, arrived if due is None else due)
        chunk = TimedChunk()
        try:
            yield chunk
            now = self._clock()
            if chunk.counts:
                self._taken.append((now, now - arrived))
                self._late.append((now, now - begun.due))
        finally:
            del self._begun[number]

    def abandoned(self, arrived: float) -> None:
        """Count a chunk that was abandoned at its segment's end, with its age."""
        now = self._clock()
        self._taken.append((now, now - arrived))
        if now - arrived > self._target:  # otherwise the tail does not depend on it
            self._late.append((now, now - arrived))

    @property
    def seconds(self) -> float:
        """The 95th percentile over the last 10 s; a chunk in progress counts with its age.

        It is 0 while there are fewer than 5 chunks.
        """
        now = self._clock()
        if now - self._computed_at >= _FRESH_SECONDS:
            self._computed_at = now
            while self._taken and self._taken[0][0] < now - WINDOW_SECONDS:
                self._taken.popleft()
            values = [seconds for _, seconds in self._taken]
            # Otherwise chunks that are never answered would look like no load.
            values += [now - begun.arrived for begun in self._begun.values()]
            enough = len(values) >= _FEWEST
            self._percentile = float(np.quantile(values, _SHARE)) if enough else 0.0
        return self._percentile

    @property
    def tail(self) -> Tail:
        """How late the latest of the last seconds' chunks were, skipped ones included.

        A chunk in progress counts once it is later than the target. Of few chunks, the 95th
        percentile is the third latest, because single stragglers do not count. Fewer than 5 chunks
        have no tail.
        """
        now = self._clock()
        while self._late and self._late[0][0] < now - TAIL_SECONDS:
            self._late.popleft()
        values = [seconds for _, seconds in self._late]
        ages = [now - begun.due for begun in self._begun.values()]
        values += [age for age in ages if age > self._target]
        if len(values) < _FEWEST:
            return Tail()
        values.sort()
        p95 = values[-max(_STRAGGLERS, math.ceil((1 - _SHARE) * len(values)))]
        if len(values) < _FEWEST_FOR_PEAKS:
            return Tail(p95, p95)
        return Tail(p95, max(p95, _extrapolated(values)))


def _extrapolated(values: list[float]) -> float:
    """Return the extrapolated value that a rare share of sorted `values` exceeds.

    The two latest count as the third, because single stragglers do not count.
    """
    count = int(_PEAKS_SHARE * len(values))
    threshold, latest = values[-count], values[-_STRAGGLERS]
    peaks = [min(value, latest) for value in values[-count:]]
    excess = sum(peaks) / len(peaks) - threshold
    return threshold + excess * math.log(_PEAKS_SHARE / _RARE_SHARE)
