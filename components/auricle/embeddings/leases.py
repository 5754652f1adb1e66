"""Leases on slots: granted with the reply, ended by the reader or by a deadline. No I/O."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from auricle.embeddings.slots import Slot, SlotTable


@dataclass(frozen=True)
class Lease:
    """A promise that `slot` keeps its content until `deadline` (monotonic seconds)."""

    number: int
    slot: Slot
    deadline: float


class LeaseBook:
    """The open leases of one slab; a lease is never renewed. Not thread-safe."""

    def __init__(self, table: SlotTable, seconds: float) -> None:
        self._table = table
        self._seconds = seconds
        self._open: dict[int, Lease] = {}
        self._by_deadline: list[tuple[float, int]] = []
        self._next = 1
        self.expired = 0

    def __len__(self) -> int:
        return len(self._open)

    def grant(self, slot: Slot, now: float) -> Lease:
        """Pin `slot` until its lease is released or expires; `now` is monotonic seconds."""
        lease = Lease(self._next, slot, now + self._seconds)
        self._next += 1
        self._table.pin(slot)
        self._open[lease.number] = lease
        heapq.heappush(self._by_deadline, (lease.deadline, lease.number))
        return lease

    def release(self, number: int) -> bool:
        """End the lease because its reader is done. Returns False if it had ended already."""
        lease = self._open.pop(number, None)
        if lease is None:
            return False
        self._table.unpin(lease.slot)
        return True

    def expire(self, now: float) -> int:
        """End the leases whose deadline is at or before `now`, and return how many those were."""
        ended = 0
        while self._by_deadline and self._by_deadline[0][0] <= now:
            _, number = heapq.heappop(self._by_deadline)
            ended += self.release(number)
        self.expired += ended
        return ended
