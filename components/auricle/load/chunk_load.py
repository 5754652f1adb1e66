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
# While somebody speaks chunks come more often than this, at the longest cadence too. After a
# longer silence the load that was measured halves every `_HALF_LIFE_SECONDS`.
_SILENCE_SECONDS = 3.0
_HALF_LIFE_SECONDS = 1.0
_FRESH_SECONDS = 0.25  # minimum time between two computations of the percentile
_SHARE = 0.95
_FEWEST = 5  # the 95th percentile of fewer chunks is meaningless
# Upper bound of the unloaded time of a chunk, as a share of the target.
_MOST_UNLOADED = 0.5
# The unloaded time follows the median by this share per computation (over minutes), so that
# one fast moment does not set the expectation for ever.
_UNLOADED_DRIFT = 0.0005


@dataclass
class Chunk:
    """A chunk in progress. Set `counts` to False if a lost worker made it slow, not load."""

    counts: bool = True


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
        self._begun: dict[int, float] = {}
        self._next = 0
        self._computed_at = float("-inf")
        self._percentile = 0.0
        self._unloaded: float | None = None  # seconds

    @contextmanager
    def chunk(self, arrived: float) -> Iterator[Chunk]:
        """Measure the block as one chunk, whose audio arrived at `arrived` on the clock.

        A chunk whose block raises is not counted.
        """
        number, self._next = self._next, self._next + 1
        self._begun[number] = arrived
        chunk = Chunk()
        try:
            yield chunk
            now = self._clock()
            if chunk.counts:
                self._taken.append((now, now - arrived))
        finally:
            del self._begun[number]

    def abandoned(self, arrived: float) -> None:
        """A chunk was given up for its segment's end: it would have taken at least so long."""
        now = self._clock()
        self._taken.append((now, now - arrived))

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
            values += [now - arrived for arrived in self._begun.values()]
            enough = len(values) >= _FEWEST
            self._percentile = float(np.quantile(values, _SHARE)) if enough else 0.0
            if enough:
                self._learn(float(np.median(values)))
        return self._percentile

    def _learn(self, median: float) -> None:
        known = median if self._unloaded is None else self._unloaded
        known += (median - known) * _UNLOADED_DRIFT
        self._unloaded = min(known, median, _MOST_UNLOADED * self._target)

    @property
    def level(self) -> float:
        """The load: 0 if chunks take their unloaded time, 1 if they take the target.

        It decays while nobody speaks.

        The unloaded time is subtracted because, with a large checkpoint or a slow machine, a
        single session's chunks already come near the target.
        """
        seconds = self.seconds
        unloaded = self._unloaded or 0.0
        level = max(0.0, (seconds - unloaded) / (self._target - unloaded))
        return level * math.exp2(-self._silence() / _HALF_LIFE_SECONDS)

    def _silence(self) -> float:
        """Seconds for which a chunk was overdue."""
        if self._begun or not self._taken:
            return 0.0
        return max(0.0, self._clock() - self._taken[-1][0] - _SILENCE_SECONDS)
