"""What keeps two planners from acting at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

# A lease not renewed for so long is anybody's.
LEASE_SECONDS = 15
RENEW_SECONDS = 4.0
# Ours is believed for less long than others wait for it: their clocks may run faster.
_BELIEVED_SECONDS = 10.0


class Lease(Protocol):
    """One lease for all planners of a deployment."""

    async def renewed(self) -> bool:
        """Take it if it is free, keep it if it is ours; whether it is ours now.

        Raises WorkerUnavailable if whoever keeps it cannot be reached.
        """
        ...

    async def release(self) -> None:
        """Let another planner have it at once."""
        ...


class Leadership:
    """Whether this planner may act now. Pure but for the clock."""

    def __init__(self, lease: Lease, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Renewed so lately that nobody else can have it."""
        return self._clock() < self._until

    async def renew(self) -> None:
        """To be called every `RENEW_SECONDS`. Raises WorkerUnavailable; then what was held
        is still held for a while, and then not."""
        asked = self._clock()
        ours = await self._lease.renewed()
        self._until = asked + _BELIEVED_SECONDS if ours else float("-inf")

    async def release(self) -> None:
        """This planner ends."""
        self._until = float("-inf")
        await self._lease.release()
