"""Ends sessions whose frontend has been silent for too long.

A frontend that loses its host or its network cannot end its sessions here: nothing arrives, and an
idle connection reports no error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

# Longer than a frontend waits for a silent processor when it has no other one (60 s).
LEASE_SECONDS = 90.0
_CHECK_SECONDS = 5.0


class FrontendLeases:
    """The sessions of each frontend, which keeps them by its probes and its audio.

    Use it on one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}  # of frontends with sessions
        self._sessions: dict[str, dict[str, Callable[[], None]]] = {}

    @contextmanager
    def session(self, frontend: str, name: str, release: Callable[[], None]) -> Iterator[None]:
        """Call `release` once the frontend has been silent for 90 s before the block ends.

        An empty `frontend` is one of an older release, which sends no probes with its name.
        """
        if not frontend:
            yield
            return
        sessions = self._sessions.setdefault(frontend, {})
        sessions[name] = release
        self._heard[frontend] = self._clock()
        try:
            yield
        finally:
            del sessions[name]
            if not sessions and self._sessions.get(frontend) is sessions:
                del self._sessions[frontend], self._heard[frontend]

    def heard(self, frontend: str) -> None:
        """Renew the frontend's lease."""
        if frontend in self._heard:
            self._heard[frontend] = self._clock()

    def check(self) -> None:
        """Release the sessions of silent frontends."""
        now = self._clock()
        for frontend, heard in list(self._heard.items()):
            if now - heard >= LEASE_SECONDS:
                sessions = list(self._sessions[frontend].values())
                log.warning(
                    "a frontend has been silent for %g s; releasing its sessions: %d",
                    *(LEASE_SECONDS, len(sessions)),
                )
                self._heard[frontend] = now
                for release in sessions:
                    release()

    async def run(self) -> None:
        """Check every 5 s, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.check()
