"""The state cache manager: embeddings in leased slots of one registered slab."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auricle.embeddings.leases import LeaseBook
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import Slot, SlotTable
from auricle.messages import WindowRef


@dataclass(frozen=True)
class Identity:
    """What every `WindowRef` of this process says about itself."""

    agent: str
    agent_metadata: bytes
    fingerprint: str
    dtype: str


class EmbeddingStore:
    """Slots, leases and memory together.

    Thread-safe: the event loop allocates and grants, the NIXL thread releases
    what readers have read.
    """

    def __init__(self, slab: HostSlab, lease_seconds: float) -> None:
        self._slab = slab
        self._table = SlotTable(slab.count)
        self._leases = LeaseBook(self._table, lease_seconds)
        self._lock = threading.Lock()

    def reuse(self, key: str, identity: Identity, now: float) -> WindowRef | None:
        """A newly leased ref to a window that is here already."""
        with self._lock:
            self._leases.expire(now)
            slot = self._table.find(key)
            return None if slot is None else self._lease(slot, identity, now)

    def put(
        self,
        key: str,
        payload: npt.NDArray[np.uint8],
        length: int,
        *,
        partial: bool,
        identity: Identity,
        now: float,
    ) -> WindowRef:
        """Write embeddings into a slot and lease it; raises Overloaded if all are leased."""
        with self._lock:
            self._leases.expire(now)
            slot = self._table.allocate(key, length, partial=partial)
            self._slab.layout.write(self._slab.slot(slot.index), key, slot.generation, payload)
            self._table.fill(slot)
            ref = self._lease(slot, identity, now)
            self._table.unpin(slot)  # the lease keeps it now
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
        """A reader's notification: comma-separated lease numbers. Foreign bytes are ignored."""
        with self._lock:
            for number in notice.split(b","):
                if number.isdigit():
                    self._leases.release(int(number))

    def expire(self, now: float) -> None:
        """End leases whose deadline has passed."""
        with self._lock:
            self._leases.expire(now)

    def supersede(self, key: str) -> None:
        """`key` was an earlier state of a window that has grown."""
        with self._lock:
            self._table.supersede(key)

    def open_leases(self) -> int:
        """Leases not yet released or expired."""
        return len(self._leases)

    def slots(self) -> int:
        """Slots there are."""
        return self._table.count

    def slots_in_use(self) -> int:
        """Slots with content."""
        return self._table.in_use
