"""Which prompt's beginning each slot of the KV cache holds. No I/O, no tensors.

A segment is decoded again and again: its head and its finished windows stay, what follows does
not. A decode takes the slot that holds the longest beginning of its prompt, and extends it in
place. A slot that is in use holds nothing for others.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True)
class Prefix:
    """The beginning of a prompt: its head, then windows by key, of `lengths` tokens each.

    Prompts of two tenants have no common beginning.
    """

    tenant: str
    head: tuple[int, ...]
    keys: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Its length in tokens."""
        return len(self.head) + sum(self.lengths)

    def first(self, windows: int) -> Prefix:
        """Return the head and the first `windows` windows."""
        return Prefix(self.tenant, self.head, self.keys[:windows], self.lengths[:windows])

    def begins(self, other: Prefix) -> bool:
        """Whether `other` begins with all of this."""
        return self == other.first(len(self.keys))


class KvSlots:
    """`count` slots. Those that nobody has asked for longest are given to others first."""

    def __init__(self, count: int) -> None:
        self.count = count
        # What each slot holds that is not in use, the next to be given away first.
        self._held: OrderedDict[int, Prefix | None] = OrderedDict.fromkeys(range(count))

    @property
    def in_use(self) -> int:
        """How many slots are taken and not given back."""
        return self.count - len(self._held)

    def take(self, wanted: Prefix) -> tuple[int, Prefix]:
        """Take a slot; returns its number and what it holds of the beginning of `wanted`.

        Without a window in common it is a slot that holds least of use to others. Raises
        IndexError if all slots are in use.
        """
        best = max(
            (slot for slot, held in self._held.items() if held is not None and held.begins(wanted)),
            key=lambda slot: len(self._prefix(slot).keys),
            default=None,
        )
        if best is None:
            if not self._held:
                raise IndexError("all slots of the KV cache are in use")
            slot, _ = self._held.popitem(last=False)
            return slot, Prefix(wanted.tenant, (), (), ())
        found = self._prefix(best)
        del self._held[best]
        return best, found

    def _prefix(self, slot: int) -> Prefix:
        held = self._held[slot]
        assert held is not None
        return held

    def give_back(self, slot: int, holds: Prefix | None) -> None:
        """Return a slot with what it `holds`; it is the next to be given away if that is nothing.

        A head alone is nothing: it costs less to compute than a slot that somebody else needs.
        """
        if holds is None or not holds.keys:
            self._held[slot] = None
            self._held.move_to_end(slot, last=False)
        else:
            self._held[slot] = holds
