"""Leases on slots: granted with the reply, ended by the reader or by a deadline. Pure logic."""

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
    """All open leases of one slab. A lease is never renewed."""

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
        """Pin `slot` until released or `seconds` from `now`."""
        lease = Lease(self._next, slot, now + self._seconds)
        self._next += 1
        self._table.pin(slot)
        self._open[lease.number] = lease
        heapq.heappush(self._by_deadline, (lease.deadline, lease.number))
        return lease

    def release(self, number: int) -> bool:
        """The reader is done; False if the lease had ended already."""
        lease = self._open.pop(number, None)
        if lease is None:
            return False
        self._table.unpin(lease.slot)
        return True

    def expire(self, now: float) -> int:
        """End the leases whose deadline has passed; returns how many."""
        ended = 0
        while self._by_deadline and self._by_deadline[0][0] <= now:
            _, number = heapq.heappop(self._by_deadline)
            ended += self.release(number)
        self.expired += ended
        return ended
