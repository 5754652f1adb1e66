"""Leaving without cutting anything: told to go, a process takes nothing new and waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1


class Drain:
    """Whether this process is to go, and what it still holds for others."""

    def __init__(self, held: Callable[[], int], told_seconds: float, deadline: float) -> None:
        """`held` counts what must end first. After `told_seconds` everybody has heard that
        nothing new may come; after `deadline` seconds it goes in any case."""
        self._held = held
        self._told = told_seconds
        self._deadline = deadline
        self.started = False

    @property
    def held(self) -> int:
        """Of what is held here, how much is left."""
        return self._held()

    async def run(self) -> None:
        """From being told to go until nothing is held any more, or the deadline."""
        self.started = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() - began < self._deadline:
            if loop.time() - began >= self._told and self._held() == 0:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        log.warning("still held after %g s: %d; going all the same", self._deadline, self._held())
