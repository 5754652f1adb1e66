"""The slots of the KV cache, and the prefixes of prompts that they hold."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True)
class Prefix:
    """The beginning of a tenant's prompt: its head, then windows by key, of `lengths` tokens."""

    tenant: str
    head: tuple[int, ...]
    keys: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.head) + sum(self.lengths)

    def first(self, windows: int) -> Prefix:
        return Prefix(self.tenant, self.head, self.keys[:windows], self.lengths[:windows])

    def begins(self, other: Prefix) -> bool:
        return self == other.first(len(self.keys))


class KvSlots:
    """The prefix in each of `count` slots of the KV cache; the least recently used is reused first.

    A segment is decoded repeatedly, with the same head and finished windows. A decode takes the
    slot with the longest prefix of its prompt and extends it in place.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # The prefixes of free slots, least recently used first.
        self._held: OrderedDict[int, Prefix | None] = OrderedDict.fromkeys(range(count))

    @property
    def in_use(self) -> int:
        return self.count - len(self._held)

    def take(self, wanted: Prefix) -> tuple[int, Prefix]:
        """Take a slot; returns its number and the prefix of `wanted` that it holds.

        Without a common window it is the least recently used one. Raises IndexError if all slots
        are in use.
        """
        fitting = [(s, held) for s, held in self._held.items() if held and held.begins(wanted)]
        if fitting:
            slot, found = max(fitting, key=lambda pair: len(pair[1].keys))
            del self._held[slot]
            return slot, found
        if not self._held:
            raise IndexError("all slots of the KV cache are in use")
        slot, _ = self._held.popitem(last=False)
        return slot, Prefix(wanted.tenant, (), (), ())

    def give_back(self, slot: int, holds: Prefix | None) -> None:
        """Return a slot with the prefix that it `holds`; it is reused first without windows."""
        if holds is None or not holds.keys:
            self._held[slot] = None
            self._held.move_to_end(slot, last=False)
        else:
            self._held[slot] = holds
