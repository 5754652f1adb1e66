"""How late the texts of chosen sessions were at this frontend, kept only while somebody looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_KEPT = 60


class TextLags:
    """The last 60 texts of each session that is watched. Used on one event loop."""

    def __init__(self, kept_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """A session is watched until `kept_seconds` after the last call of `watch`."""
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._until: dict[str, float] = {}
        self._lags: dict[str, deque[tuple[int, float]]] = {}

    def watch(self, session: str) -> tuple[tuple[int, float], ...]:
        """Return what was kept as (position in ms, seconds from its audio to its text)."""
        now = self._clock()
        for name in [name for name, until in self._until.items() if until <= now]:
            del self._until[name], self._lags[name]
        self._until[session] = now + self._kept_seconds
        return tuple(self._lags.setdefault(session, deque(maxlen=_KEPT)))

    def told(self, session: str, audio_ms: int, seconds: float) -> None:
        """A text up to `audio_ms` came `seconds` after its audio."""
        if session in self._until and self._clock() < self._until[session]:
            self._lags[session].append((audio_ms, seconds))
