"""Which pools are empty and about to be started, as planners say. No I/O but the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from auricle.load.reports import STALE_INTERVALS, PoolKind, StartingPools


class Starting:
    """Keeps the latest that was heard of any planner; what is old does not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._kinds: frozenset[PoolKind] = frozenset()

    def heard(self, said: StartingPools) -> None:
        """Store what a planner published."""
        self._until = self._clock() + STALE_INTERVALS * said.seconds
        self._kinds = frozenset(said.kinds)

    def __contains__(self, kind: PoolKind) -> bool:
        return kind in self._kinds and self._clock() < self._until
