"""Measures what a processor's sessions ask of pools beside the path. No I/O but the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from auricle.load.reports import Asked


class AskedMeter:
    """Counts sessions and seconds of speech by what is asked for, such as `words`.

    Not thread-safe: use it on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._sessions: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()

    @contextmanager
    def session(self, asked: str) -> Iterator[None]:
        """Count a session that asks while the block runs."""
        self._sessions[asked] += 1
        try:
            yield
        finally:
            self._sessions[asked] -= 1

    def speech(self, asked: str, seconds: float) -> None:
        """Add speech for which it was asked, whether or not there was a worker."""
        self._seconds[asked] += seconds  # type: ignore[assignment]  # fractions count too

    @property
    def sessions(self) -> Mapping[str, int]:
        """The open sessions that ask, by what they ask for."""
        return self._sessions

    def take(self) -> dict[str, Asked]:
        """Return what was asked since the previous call."""
        now = self._clock()
        passed, self._since = max(now - self._since, 1e-6), now
        spoken, self._seconds = self._seconds, Counter()
        return {
            asked: Asked(self._sessions[asked], spoken[asked] / passed)
            for asked in sorted(self._sessions | spoken)
        }
