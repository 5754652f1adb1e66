"""Lets in the sessions of one connection: within the key's limits, the frontend's and the load."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from auricle.frontend.doors.access.key_limits import KeyLimits
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.front_door import FrontDoor
from auricle.frontend.doors.seats import Seat


class Admitting:
    """Counts sessions and asks for them, one by one; several are let in together or not at all."""

    def __init__(self, front_door: FrontDoor, key_limits: KeyLimits) -> None:
        self._front_door = front_door
        self._key_limits = key_limits

    @asynccontextmanager
    async def admitted(
        self, client: Client, sharer: str, names: Sequence[str], *, resumes: bool = False
    ) -> AsyncIterator[list[Seat]]:
        """Admit sessions under these names while the block runs; yields the seat of each.

        `sharer` is who they count for among others. Raises RateLimited or Overloaded.
        """
        async with AsyncExitStack() as held:
            seats = []
            for name in names:
                held.enter_context(self._key_limits.one(client))
                seat = held.enter_context(self._front_door.counted(sharer))
                await held.enter_async_context(
                    self._front_door.admitted(
                        client.tenant, name, seat, resumes=resumes, priority=client.key.rank
                    )
                )
                seats.append(seat)
            yield seats
