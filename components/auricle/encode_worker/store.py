"""The state cache manager: embeddings in leased slots of one registered slab."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from auricle.embeddings.layout import Bytes
from auricle.embeddings.leases import LeaseBook
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import Slot, SlotTable
from auricle.messages import SpoiledSlot, WindowRef

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """The fields that all `WindowRef`s of this process share."""

    agent: str
    agent_metadata: bytes
    fingerprint: str
    dtype: str


class EmbeddingStore:
    """Stores embeddings in slots and grants leases on them.

    Thread-safe: the event loop stores and grants, the NIXL thread releases leases. `now` is
    monotonic seconds.
    """

    def __init__(self, slab: HostSlab, lease_seconds: float) -> None:
        self._slab = slab
        self._table = SlotTable(slab.count)
        self._leases = LeaseBook(self._table, lease_seconds)
        self._lock = threading.Lock()
        # Called for each slot that is evicted because its content was wrong.
        self.on_spoiled: Callable[[], None] = lambda: None

    def reuse(self, key: str, identity: Identity, now: float) -> WindowRef | None:
        """Lease a window that is stored already; returns None if it is not.

        A slot whose header is not as it was written is evicted.
        """
        with self._lock:
            self._leases.expire(now)
            slot = self._table.find(key)
            if slot is None:
                return None
            memory, layout = self._slab.slot(slot.index), self._slab.layout
            if (wrong := layout.matches(memory, key, slot.generation, slot.length)) is not None:
                log.error("slot %d was overwritten: %s", slot.index, wrong)
                self._condemn(slot.index, slot.generation)
                return None
            return self._lease(slot, identity, now)

    def evict(self, slots: Iterable[SpoiledSlot], agent: str) -> None:
        """Evict the content that readers found to be wrong, of those slots that are `agent`'s."""
        with self._lock:
            for spoiled in slots:
                if spoiled.agent == agent and self._condemn(spoiled.slot, spoiled.generation):
                    log.error("slot %d was evicted: a reader found it spoiled", spoiled.slot)

    def _condemn(self, index: int, generation: int) -> bool:
        condemned = self._table.condemn(index, generation)
        if condemned:
            self.on_spoiled()
        return condemned

    def put(
        self,
        key: str,
        payload: Bytes,
        length: int,
        *,
        partial: bool,
        identity: Identity,
        now: float,
    ) -> WindowRef:
        """Write `length` embeddings into a slot and lease it.

        `key` is one of `embeddings/keys.py`; `payload` is `length` rows of `layout.row_bytes`
        bytes, shape (bytes,); a `partial` window is evicted before finished ones. Raises
        Overloaded if all slots are leased, ValueError if `key` is stored already or the
        payload's size is wrong.
        """
        with self._lock:
            self._leases.expire(now)
            slot = self._table.allocate(key, length, partial=partial)
            self._slab.layout.write(self._slab.slot(slot.index), key, slot.generation, payload)
            self._table.fill(slot)
            ref = self._lease(slot, identity, now)
            self._table.unpin(slot)  # the lease has its own pin
            return ref

    def _lease(self, slot: Slot, identity: Identity, now: float) -> WindowRef:
        lease = self._leases.grant(slot, now)
        region = self._slab.slot_region(slot.index, slot.length)
        return WindowRef(
            key=slot.key or "",
            fingerprint=identity.fingerprint,
            dtype=identity.dtype,
            length=slot.length,
            agent=identity.agent,
            agent_metadata=identity.agent_metadata,
            address=region.address,
            size=region.size,
            device=region.device,
            memory=region.memory,
            slot=slot.index,
            generation=slot.generation,
            lease=lease.number,
        )

    def release(self, notice: bytes) -> None:
        """End the leases that a reader's notification names.

        `notice` is comma-separated lease numbers; anything else in it is ignored.
        """
        with self._lock:
            for number in notice.split(b","):
                if number.isdigit():
                    self._leases.release(int(number))

    def give_back(self, refs: Iterable[WindowRef]) -> None:
        """End the leases of refs that were granted and not sent to anyone."""
        with self._lock:
            for ref in refs:
                self._leases.release(ref.lease)

    def expire(self, now: float) -> None:
        """End leases whose deadline has passed."""
        with self._lock:
            self._leases.expire(now)

    def supersede(self, key: str) -> None:
        """Evict `key` first: it is an earlier state of a window that has grown since."""
        with self._lock:
            self._table.supersede(key)

    def open_leases(self) -> int:
        """Return the number of leases neither released nor expired."""
        return len(self._leases)

    def slots(self) -> int:
        """Return the number of slots."""
        return self._table.count

    def slots_in_use(self) -> int:
        """Return the number of slots with content."""
        return self._table.in_use

    def slots_leased(self) -> int:
        """Return the number of slots with an open lease, which cannot be evicted."""
        with self._lock:
            return self._table.pinned
