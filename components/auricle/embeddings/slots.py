"""A content-addressed cache of slots with pins. No I/O.

Both ends of a transfer use it: in the encode worker a pin is a lease, which the reader or a
deadline ends; in the PD worker a pin is a request in flight.

Superseded windows are evicted first, then partial ones, then finished ones; within each class the
least recently used. A pinned slot is never evicted.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

from auricle.core.errors import Overloaded


@dataclass
class Slot:
    """One slot. `generation` increases whenever the slot is allocated for new content."""

    index: int
    generation: int = 0
    key: str | None = None
    length: int = 0
    partial: bool = False
    superseded: bool = False
    pins: int = 0
    ready: bool = False
    evict_on_unpin: bool = False


@dataclass(frozen=True)
class SlotRef:
    """One audio item of a prompt: the slot of its `length` embeddings in the landing slab."""

    key: str
    slot: int
    generation: int
    length: int


class SlotTable:
    """`count` slots and the keys of their contents. Not thread-safe."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"a slab needs at least one slot, got {count}")
        self.count = count
        self._slots = [Slot(index) for index in range(count)]
        self._free = list(range(count - 1, -1, -1))
        self._by_key: dict[str, Slot] = {}
        # Indices of the slots with a key, least recently used first.
        self._recency: OrderedDict[int, None] = OrderedDict()

    @property
    def in_use(self) -> int:
        return self.count - len(self._free)

    @property
    def pinned(self) -> int:
        return sum(1 for slot in self._slots if slot.pins)

    def find(self, key: str) -> Slot | None:
        """Return the ready slot of `key` and mark it most recently used; None without one."""
        slot = self._by_key.get(key)
        if slot is None or not slot.ready:
            return None
        self._recency.move_to_end(slot.index)
        slot.superseded = False
        return slot

    def allocate(self, key: str, length: int, *, partial: bool) -> Slot:
        """Return a pinned slot for `length` embeddings, evicting one if needed; not ready yet.

        Raises Overloaded if all slots are pinned, ValueError if `key` already has a slot.
        """
        if key in self._by_key:
            raise ValueError(f"{key} already has a slot")
        slot = self._slots[self._free.pop()] if self._free else self._take_victim()
        slot.generation += 1
        slot.key, slot.length, slot.partial = key, length, partial
        slot.superseded, slot.ready, slot.pins = False, False, 1
        self._by_key[key] = slot
        self._recency[slot.index] = None
        return slot

    def fill(self, slot: Slot) -> None:
        """Mark the content as written, so that `find` returns it. The allocation's pin stays."""
        slot.ready = True

    def detach(self, slot: Slot) -> None:
        """Give up an allocation whose memory may still be written to.

        The key may be allocated another slot; this one is out of use until `abandon`.
        """
        self._forget(slot)

    def abandon(self, slot: Slot) -> None:
        """Free a slot whose content could not be written."""
        self._forget(slot)
        slot.pins = 0
        self._free.append(slot.index)

    def pin(self, slot: Slot) -> None:
        """Keep the slot from eviction until `unpin`."""
        slot.pins += 1

    def unpin(self, slot: Slot) -> None:
        """Undo one `pin`, or the allocation's. Raises ValueError if the slot is not pinned."""
        if slot.pins < 1:
            raise ValueError(f"slot {slot.index} is not pinned")
        slot.pins -= 1
        if slot.evict_on_unpin and not slot.pins:
            slot.evict_on_unpin = False
            self._free.append(slot.index)

    def evict(self, index: int, generation: int) -> bool:
        """Evict corrupt content: `find` no longer returns it.

        A pinned slot is free once its last pin has ended. Returns False if the slot does not
        exist or holds another generation.
        """
        if not 0 <= index < self.count:
            return False
        slot = self._slots[index]
        if not slot.ready or slot.generation != generation:
            return False
        self._forget(slot)
        if slot.pins:
            slot.evict_on_unpin = True
        else:
            self._free.append(index)
        return True

    def supersede(self, key: str) -> None:
        """Evict `key` before all others: the window has grown and has a new key."""
        slot = self._by_key.get(key)
        if slot is not None:
            slot.superseded = True

    def _take_victim(self) -> Slot:
        candidates = (self._slots[i] for i in self._recency)
        # `min` returns the first of equal ranks, the least recently used.
        victim = min((s for s in candidates if s.ready and not s.pins), key=_rank, default=None)
        if victim is None:
            raise Overloaded(f"all {self.count} slots of the slab are in use; try again")
        self._forget(victim)
        return victim

    def _forget(self, slot: Slot) -> None:
        if slot.key is not None:
            del self._by_key[slot.key]
            del self._recency[slot.index]
        slot.key, slot.ready = None, False


def _rank(slot: Slot) -> int:
    if slot.superseded:
        return 0
    return 1 if slot.partial else 2


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
        """End the leases whose deadline is at or before `now`; returns their number."""
        ended = 0
        while self._by_deadline and self._by_deadline[0][0] <= now:
            _, number = heapq.heappop(self._by_deadline)
            ended += self.release(number)
        return ended
