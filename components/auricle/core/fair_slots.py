"""Slots that several owners share in turn, so that none of them takes all."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from auricle.core.errors import Overloaded


class FairSlots:
    """Grants `limit` slots to owners in turn; all calls must be made on one event loop.

    An owner has at most `per_owner` slots at a time and `max_waiting` calls waiting for one.
    Owners that wait get the next free slot in rotation, however many calls each of them has
    waiting; the calls of one owner are served in order. Work per call does not grow with the
    number of waiting calls.
    """

    def __init__(self, limit: int, per_owner: int, max_waiting: int) -> None:
        self._free = limit
        self._per_owner = per_owner
        self._max_waiting = max_waiting
        self._held: Counter[str] = Counter()
        # Each owner's waiting calls in order of arrival; the owner whose turn it is comes first.
        self._lines: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncGenerator[None, None]:
        """Hold a slot while the block runs.

        Raises Overloaded if `max_waiting` calls of this owner wait already.
        """
        await self._take(owner)
        try:
            yield
        finally:
            self._release(owner)

    async def _take(self, owner: str) -> None:
        line = self._lines.setdefault(owner, OrderedDict())
        turn = asyncio.get_running_loop().create_future()
        line[turn] = None
        self._grant()
        if not turn.done() and len(line) > self._max_waiting:
            self._leave(owner, turn)
            raise Overloaded(f"{len(line)} requests of this client wait already; try again later")
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(owner, turn)
            else:
                self._release(owner)  # granted in the same moment
            raise

    def _release(self, owner: str) -> None:
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._grant()

    def _grant(self) -> None:
        # Owners at their limit are passed over; there are at most as many of them as slots.
        while self._free:
            owner = next((o for o in self._lines if self._held[o] < self._per_owner), None)
            if owner is None:
                return
            turn = next(iter(self._lines[owner]))
            self._leave(owner, turn)
            if owner in self._lines:
                self._lines.move_to_end(owner)
            if not turn.cancelled():
                self._free -= 1
                self._held[owner] += 1
                turn.set_result(None)

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Take a call out of its line. It may have been taken out already."""
        if (line := self._lines.get(owner)) is not None:
            line.pop(turn, None)
            if not line:
                del self._lines[owner]
