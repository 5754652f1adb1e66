"""Asks a diarize worker who speaks in a final segment."""

from __future__ import annotations

import asyncio

from auricle.errors import AuricleError, DeadlineExceeded
from auricle.load.starting import Starting
from auricle.messages import DiarizeReply, DiarizeRequest
from auricle.processor.pools import Placement, Pool, call_placed


class DiarizePool(Pool):
    """Calls to diarize workers."""

    async def diarize(self, placement: Placement, request: DiarizeRequest) -> DiarizeReply:
        """Make one attempt. Raises AuricleError."""
        reply: DiarizeReply = await call_placed(self, placement, request, DiarizeReply)
        return reply


class Diarizer:
    """Asks for the segments of all sessions of a processor."""

    def __init__(self, pool: DiarizePool, starting: Starting) -> None:
        """`starting` is what planners say."""
        self._pool = pool
        self._starting = starting

    async def starting(self) -> bool:
        """Whether the pool was empty and has no worker yet, so that there is nobody to wait for.

        Raises AuricleError if discovery cannot be followed.
        """
        return "diarize_worker" in self._starting and not await self._pool.there()

    async def speakers(self, request: DiarizeRequest, seconds: float) -> DiarizeReply:
        """Return who speaks, retrying on other workers.

        Raises AuricleError: after `seconds` the last one that there was, or DeadlineExceeded.
        """
        placement, last = Placement(self._pool), list[AuricleError]()

        async def once() -> DiarizeReply:
            try:
                return await self._pool.diarize(placement, request)
            except AuricleError as error:
                last.append(error)
                raise

        try:
            async with asyncio.timeout(seconds):
                return await self._pool.attempt(once, wait_for_room=True)
        except TimeoutError:
            late = DeadlineExceeded(f"diarizing took longer than {seconds:g} s")
            raise (last[-1] if last else late) from None
        finally:
            placement.leave()
