"""How long chunks take now, as their users feel it. Pure but for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

_WINDOW_SECONDS = 10.0
_FRESH_SECONDS = 0.25  # the percentile is computed no more often
_SHARE = 0.95
_FEWEST = 5  # of fewer chunks the 95th percentile says nothing
# At most so much of the target is what a chunk takes by itself; the rest is for load.
_MOST_BY_ITSELF = 0.5
# A fast moment is forgotten over minutes: a quieter machine must not be expected for ever.
_FORGOTTEN_PER_LOOK = 0.0005


@dataclass
class Chunk:
    """One that is worked on. What was lost with a worker and done again is no load."""

    counts: bool = True


class ChunkLoad:
    """Of this processor's live sessions: from a chunk's audio to its text.

    It shows what any part of the way lacks (encode workers, PD workers, this process),
    and needs to know nothing of them.
    """

    def __init__(self, target_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`target_seconds` is what 95 of 100 chunks should not exceed."""
        self._target = target_seconds
        self._clock = clock
        self._taken: deque[tuple[float, float]] = deque()  # (when, seconds)
        self._begun: dict[int, float] = {}
        self._next = 0
        self._computed_at = float("-inf")
        self._percentile = 0.0
        self._by_itself: float | None = None  # seconds of a chunk when little else went on

    @contextmanager
    def chunk(self, arrived: float) -> Iterator[Chunk]:
        """A chunk whose audio arrived at that time is worked on; if it fails it does not count."""
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

    @property
    def seconds(self) -> float:
        """The 95th percentile of the last seconds; what still waits counts with its age."""
        now = self._clock()
        if now - self._computed_at >= _FRESH_SECONDS:
            self._computed_at = now
            while self._taken and self._taken[0][0] < now - _WINDOW_SECONDS:
                self._taken.popleft()
            values = [seconds for _, seconds in self._taken]
            # Chunks that nobody answers must not look like no load.
            values += [now - arrived for arrived in self._begun.values()]
            enough = len(values) >= _FEWEST
            self._percentile = float(np.quantile(values, _SHARE)) if enough else 0.0
            if enough:
                self._learn(float(np.median(values)))
        return self._percentile

    def _learn(self, median: float) -> None:
        known = median if self._by_itself is None else self._by_itself
        known += (median - known) * _FORGOTTEN_PER_LOOK
        self._by_itself = min(known, median, _MOST_BY_ITSELF * self._target)

    @property
    def level(self) -> float:
        """0 where chunks take what they take by themselves, 1 where they take the target.

        With a large checkpoint, or a slow machine, a single session's chunks come near the
        target without any load.
        """
        seconds = self.seconds
        by_itself = self._by_itself or 0.0
        return max(0.0, (seconds - by_itself) / (self._target - by_itself))
