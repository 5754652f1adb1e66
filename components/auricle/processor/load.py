"""How long chunks take now, as their users feel it. Pure but for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

_WINDOW_SECONDS = 5.0
_FRESH_SECONDS = 0.25  # the percentile is computed no more often
_SHARE = 0.95
_FEWEST = 5  # of fewer chunks the 95th percentile says nothing


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

    @contextmanager
    def chunk(self, arrived: float) -> Iterator[None]:
        """A chunk whose audio arrived at that time is worked on; if it fails it does not count."""
        number, self._next = self._next, self._next + 1
        self._begun[number] = arrived
        try:
            yield
            now = self._clock()
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
        return self._percentile

    @property
    def level(self) -> float:
        """`seconds` as a share of the target: 1 is as much as can be borne."""
        return self.seconds / self._target
