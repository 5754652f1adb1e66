"""Draining: a process that must stop takes no new work, and waits until its work has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from auricle.core.aio import run_until
from auricle.process.metrics import report_status

log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_CUT_SECONDS = 3.0


class Drain:
    """Whether this process is draining, and how much work it still holds for others."""

    def __init__(
        self,
        held: Callable[[], int],
        notice_seconds: float,
        deadline: float,
        cut: Callable[[], int] | None = None,
    ) -> None:
        """`held` returns the number of items (segments, leases, ...) that must end first.

        The drain lasts at least `notice_seconds`, so that all callers can stop, and at most
        `deadline` seconds. `cut` ends all items, and returns the number of the remaining ones.
        """
        self._cut = cut
        self._held = held
        self._notice = notice_seconds
        self._deadline = deadline
        self.started = False

    @property
    def held(self) -> int:
        """The number of items that must still end."""
        return self._held()

    def begin(self) -> int:
        """Begin to drain without waiting; return the number of items that must still end."""
        self.started = True
        return self._held()

    async def run(self) -> None:
        """Drain: return when nothing is held any more, or after the deadline with a warning."""
        self.started = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() - began < self._deadline:
            if loop.time() - began >= self._notice and self._held() == 0:
                return
            await asyncio.sleep(_POLL_SECONDS)
        log.warning("still held after %g s: %d; stopping anyway", self._deadline, self._held())

    async def hurry(self) -> None:
        """End all items at once; return when none is left, or after 3 s with a warning."""
        if self._cut is None:
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        while left := self._cut():
            if loop.time() - began >= _CUT_SECONDS:
                log.warning("still held after %g s: %d; stopping anyway", _CUT_SECONDS, left)
                return
            await asyncio.sleep(_POLL_SECONDS)


async def until_going(leave: asyncio.Event, stop: asyncio.Event, drain: Drain | None) -> None:
    """Return after `leave` (SIGTERM) and the drain, or after `stop` (SIGINT) and the cut."""
    left = await run_until(stop, leave.wait())
    if drain is None:
        return
    if left is not None:
        report_status("draining")
        await run_until(stop, drain.run())
    if stop.is_set():
        await drain.hurry()
