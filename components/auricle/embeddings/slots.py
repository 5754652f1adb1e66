"""Which slot of a slab holds what: a content-addressed cache with pins. Pure logic.

Both ends use it: the encode worker (a pin is a lease, released by the reader
or by its deadline) and the PD worker (a pin is a request in flight).

Eviction order: superseded windows first, then partial ones, then finished ones;
least recently used first within each. A pinned slot is never reused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from auricle.errors import Overloaded


@dataclass
class Slot:
    """One slot. `generation` grows each time the slot is given new content."""

    index: int
    generation: int = 0
    key: str | None = None
    length: int = 0
    partial: bool = False
    superseded: bool = False
    pins: int = 0
    ready: bool = False


@dataclass
class SlotTable:
    """`count` slots and the keys in them. Not thread-safe: one owner."""

    count: int
    evictions: int = 0
    _slots: list[Slot] = field(init=False)
    _by_key: dict[str, Slot] = field(init=False, default_factory=dict)
    # Least recently used first; free slots carry no key and are kept apart.
    _recency: OrderedDict[int, None] = field(init=False, default_factory=OrderedDict)
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a slab needs at least one slot, got {self.count}")
        self._slots = [Slot(index) for index in range(self.count)]
        self._free = list(range(self.count - 1, -1, -1))

    @property
    def in_use(self) -> int:
        """Slots with content."""
        return self.count - len(self._free)

    @property
    def pinned(self) -> int:
        """Slots that cannot be reused now."""
        return sum(1 for slot in self._slots if slot.pins)

    def find(self, key: str) -> Slot | None:
        """The ready slot holding `key`, now most recently used; None if there is none."""
        slot = self._by_key.get(key)
        if slot is None or not slot.ready:
            return None
        self._recency.move_to_end(slot.index)
        slot.superseded = False
        return slot

    def holding(self, key: str) -> Slot | None:
        """The slot that has `key`, ready or still being filled."""
        return self._by_key.get(key)

    def allocate(self, key: str, length: int, *, partial: bool) -> Slot:
        """A pinned slot for new content, not ready yet; raises Overloaded if all are pinned."""
        if key in self._by_key:
            raise ValueError(f"{key} already has a slot")
        slot = self._slots[self._free.pop()] if self._free else self._evict()
        slot.generation += 1
        slot.key, slot.length, slot.partial = key, length, partial
        slot.superseded, slot.ready, slot.pins = False, False, 1
        self._by_key[key] = slot
        self._recency[slot.index] = None
        return slot

    def fill(self, slot: Slot) -> None:
        """The content is written: others may find it. The allocation's pin stays."""
        slot.ready = True

    def detach(self, slot: Slot) -> None:
        """The content will not come, but the memory may still be written to.

        The key is forgotten, so it can be given another slot; this one is out of
        use until `abandon`.
        """
        self._forget(slot)

    def abandon(self, slot: Slot) -> None:
        """The content could not be written: the slot is free again."""
        self._forget(slot)
        slot.pins = 0
        self._free.append(slot.index)

    def pin(self, slot: Slot) -> None:
        """Keep the slot from reuse until `unpin`."""
        slot.pins += 1

    def unpin(self, slot: Slot) -> None:
        """Undo one `pin` (or the allocation's)."""
        if slot.pins < 1:
            raise ValueError(f"slot {slot.index} is not pinned")
        slot.pins -= 1

    def supersede(self, key: str) -> None:
        """A longer state of the same window exists: this one goes first."""
        slot = self._by_key.get(key)
        if slot is not None:
            slot.superseded = True

    def _evict(self) -> Slot:
        candidates = (self._slots[i] for i in self._recency)
        best: Slot | None = None
        for slot in candidates:
            if slot.pins or not slot.ready:
                continue
            if best is None or _rank(slot) < _rank(best):
                best = slot
            if best is not None and _rank(best) == 0:
                break
        if best is None:
            raise Overloaded(f"all {self.count} slots of the slab are in use; try again")
        self.evictions += 1
        self._forget(best)
        return best

    def _forget(self, slot: Slot) -> None:
        if slot.key is not None:
            del self._by_key[slot.key]
            del self._recency[slot.index]
        slot.key, slot.ready = None, False


def _rank(slot: Slot) -> int:
    """Smaller goes first."""
    if slot.superseded:
        return 0
    return 1 if slot.partial else 2
