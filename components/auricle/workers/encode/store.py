"""The store of embeddings: leased slots of one registered slab."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import LeaseBook, Slot, SlotTable
from auricle.protocol.diagnosis import SlabState
from auricle.protocol.recognition import SpoiledSlot, WindowRef

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """The fields that all `WindowRef`s of this process share."""

    agent: str
    agent_metadata: bytes
    fingerprint: str
    dtype: str


@dataclass(frozen=True)
class Reservation:
    """A pinned slot for the window `key`, until it is abandoned, or published and released."""

    key: str
    slot: Slot


class EmbeddingStore:
    """Stores embeddings in slots and grants leases on them.

    A window in the encoder has a reservation, which is either abandoned, or published and `let_go`
    once all its waiting requests have leases.

    Thread-safe: the encoder's thread reserves and publishes, the event loop grants leases, the
    NIXL thread releases them. `now` is monotonic seconds.
    """

    def __init__(self, slab: Slab, lease_seconds: float) -> None:
        self._slab = slab
        self._table = SlotTable(slab.count)
        self._leases = LeaseBook(self._table, lease_seconds)
        self._lock = threading.Lock()
        # Called for each slot that is evicted because its content was corrupt.
        self.on_spoiled: Callable[[], None] = lambda: None

    def reuse(self, key: str, identity: Identity, now: float) -> WindowRef | None:
        """Lease a stored window; returns None if it is not stored.

        A slot with a corrupt header is evicted.
        """
        with self._lock:
            self._leases.expire(now)
            slot = self._table.find(key)
            if slot is None:
                return None
            wrong = self._slab.mismatch(slot.index, key, slot.generation, slot.length)
            if wrong is not None:
                log.error("Slot %d was overwritten and is evicted: %s", slot.index, wrong)
                self._evict(slot.index, slot.generation)
                return None
            return self._lease(key, slot, identity, now)

    def evict(self, slots: Iterable[SpoiledSlot], agent: str) -> None:
        """Evict the slots of `agent`, in which readers found corrupt content."""
        with self._lock:
            for spoiled in slots:
                if spoiled.agent == agent and self._evict(spoiled.slot, spoiled.generation):
                    log.error("Slot %d was evicted: a reader found it corrupt", spoiled.slot)

    def _evict(self, index: int, generation: int) -> bool:
        evicted = self._table.evict(index, generation)
        if evicted:
            self.on_spoiled()
        return evicted

    def reserve(
        self, key: str, length: int, *, partial: bool, supersedes: str | None, now: float
    ) -> Reservation:
        """Take a slot for a window of `length` embeddings and clear its header.

        A `partial` window is evicted before finished ones. `supersedes` is the key of an earlier
        state of the window, which is evicted first. Raises Overloaded if all slots are leased or
        reserved, ValueError if `key` has a slot already.
        """
        with self._lock:
            self._leases.expire(now)
            if supersedes is not None:
                self._table.supersede(supersedes)
            slot = self._table.allocate(key, length, partial=partial)
            self._slab.invalidate(slot.index)
            return Reservation(key, slot)

    @property
    def on_device(self) -> bool:
        return self._slab.on_device

    def publish(
        self, windows: Sequence[tuple[Reservation, Any]], check: Callable[[], None] = lambda: None
    ) -> None:
        """Write the embeddings of reserved slots, then their headers; then `reuse` finds them.

        Embeddings are rows of `layout.row_bytes` bytes, shape (bytes,), or tensors if they stay on
        the device. `check` is called after the embeddings are written. Raises whatever it raises,
        or ValueError if sizes differ from the reservations; then no window is published.
        """
        for reservation, payload in windows:
            expected = self._slab.layout.payload_bytes(reservation.slot.length)
            if payload.nbytes != expected:
                raise ValueError(f"{reservation.key} has {payload.nbytes} bytes, not {expected}")
        # Without the lock, as reserved slots are not shared yet.
        for reservation, payload in windows:
            self._slab.fill(reservation.slot.index, payload)
        self._slab.synchronize()  # once for all of them
        check()
        for reservation, _ in windows:
            slot = reservation.slot
            self._slab.commit(slot.index, reservation.key, slot.generation, slot.length)
        with self._lock:
            for reservation, _ in windows:
                self._table.fill(reservation.slot)

    def abandon(self, reservations: Iterable[Reservation]) -> None:
        with self._lock:
            for reservation in reservations:
                self._table.abandon(reservation.slot)

    def lease(self, reservation: Reservation, identity: Identity, now: float) -> WindowRef:
        """Lease a published window whose reservation has not ended."""
        with self._lock:
            self._leases.expire(now)
            return self._lease(reservation.key, reservation.slot, identity, now)

    def let_go(self, reservation: Reservation) -> None:
        """End the reservation of a published window; only leases keep it from eviction then."""
        with self._lock:
            self._table.unpin(reservation.slot)

    def _lease(self, key: str, slot: Slot, identity: Identity, now: float) -> WindowRef:
        lease = self._leases.grant(slot, now)
        place = self._slab.regions_of(slot.index, slot.length)
        return WindowRef(
            key=key,
            fingerprint=identity.fingerprint,
            dtype=identity.dtype,
            length=slot.length,
            agent=identity.agent,
            agent_metadata=identity.agent_metadata,
            address=place.payload.address,
            size=place.payload.size,
            device=place.payload.device,
            memory=place.payload.memory,
            header=place.header.address,
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
        with self._lock:
            for ref in refs:
                self._leases.release(ref.lease)

    def expire(self, now: float) -> None:
        with self._lock:
            self._leases.expire(now)

    def open_leases(self) -> int:
        return len(self._leases)

    def slots(self) -> int:
        return self._table.count

    def slots_in_use(self) -> int:
        return self._table.in_use

    def state(self) -> SlabState:
        with self._lock:
            return SlabState(self._table.count, self._table.in_use, self._table.pinned)
