"""Leader election: only the planner that holds the lease may scale pools."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

# Another planner may take a lease that has not been renewed for so long.
LEASE_SECONDS = 15
RENEW_SECONDS = 4.0
# A holder stops acting earlier than others may take its lease: their clocks may run faster.
_BELIEVED_SECONDS = 10.0


class Lease(Protocol):
    """The one lease that all planners of a deployment compete for."""

    async def renewed(self) -> bool:
        """Acquire the lease if it is free or renew it if it is ours; return whether it is ours.

        Raises WorkerUnavailable if the service that keeps the lease cannot be reached.
        """
        ...

    async def release(self) -> None:
        """Give the lease up, so that another planner can acquire it at once."""
        ...


class Leadership:
    """Tells whether this planner may act now. Use it on one event loop."""

    def __init__(self, lease: Lease, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether the lease was renewed so recently that no other planner can hold it."""
        return self._clock() < self._until

    async def renew(self) -> None:
        """Acquire or renew the lease; call this every `RENEW_SECONDS`.

        Raises WorkerUnavailable. A lease held then stays held until 10 s after it was renewed.
        """
        asked = self._clock()
        ours = await self._lease.renewed()
        self._until = asked + _BELIEVED_SECONDS if ours else float("-inf")

    async def release(self) -> None:
        """Give the lease up, as this planner stops."""
        self._until = float("-inf")
        await self._lease.release()
