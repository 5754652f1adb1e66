"""A window is reserved, then published or abandoned; only published windows are found."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.core.errors import Overloaded
from auricle.embeddings.layout import Bytes, SlabLayout
from auricle.workers.encode.store import EmbeddingStore, Identity, Reservation
from auricle_testing.slabs import KINDS, content, slab_in

pytestmark = pytest.mark.unit
LAYOUT = SlabLayout(width=4, item_bytes=4, max_length=8)
IDENTITY = Identity("agent", b"", "f", "float32")
A, B, C = "aa" * 24, "bb" * 24, "cc" * 24
NOW, LEASE_SECONDS = 1000.0, 30.0


class Bench:
    """A store of two slots."""

    def __init__(self, kind: str) -> None:
        self.slab = slab_in(kind, LAYOUT, 2)
        self.store = EmbeddingStore(self.slab, LEASE_SECONDS)

    def reserve(self, key: str, now: float = NOW, supersedes: str | None = None) -> Reservation:
        return self.store.reserve(key, 3, partial=True, supersedes=supersedes, now=now)

    def stored(self, key: str, value: int = 1, now: float = NOW) -> Reservation:
        reservation = self.reserve(key, now)
        self.store.publish([(reservation, payload(value))])
        return reservation

    def found(self, key: str) -> bool:
        return self.store.reuse(key, IDENTITY, NOW) is not None


def payload(value: int, length: int = 3) -> Bytes:
    return np.full(LAYOUT.payload_bytes(length), value, np.uint8)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_a_window_is_found_once_it_is_published(bench: Bench) -> None:
    reservation = bench.reserve(A)
    assert not bench.found(A)
    bench.store.publish([(reservation, payload(5))])
    ref = bench.store.reuse(A, IDENTITY, NOW)
    assert ref is not None
    bench.slab.verify(ref.slot, A, ref.generation, 3)
    place = bench.slab.regions_of(ref.slot, 3)
    assert (ref.address, ref.size, ref.header) == (
        place.payload.address,
        place.payload.size,
        place.header.address,
    )


def test_windows_of_a_batch_are_published_together_or_not_at_all(bench: Bench) -> None:
    both = [bench.reserve(A), bench.reserve(B)]
    with pytest.raises(ValueError, match=f"{B} has 32 bytes, not 48"):
        bench.store.publish([(both[0], payload(1)), (both[1], payload(2, length=2))])
    assert not bench.found(A) and not bench.slab.header(both[0].slot.index).any()
    bench.store.publish([(both[0], payload(1)), (both[1], payload(2))])
    assert bench.found(A) and bench.found(B)


def test_the_old_header_is_gone_before_the_slot_is_written_again(bench: Bench) -> None:
    """A reader whose lease has ended reads the headers last, and must detect the change."""
    first = bench.stored(A)
    ref = bench.store.lease(first, IDENTITY, NOW)
    bench.store.let_go(first)
    bench.stored(B)
    again = bench.reserve(C, now=NOW + LEASE_SECONDS)
    assert again.slot.index == ref.slot
    assert not bench.slab.header(ref.slot).any()
    np.testing.assert_array_equal(content(bench.slab, ref.slot, 3), payload(1))
    bench.store.publish([(again, payload(2))])
    assert bench.slab.mismatch(ref.slot, A, ref.generation, 3) is not None


def test_an_abandoned_slot_is_free_and_its_key_unknown(bench: Bench) -> None:
    bench.store.abandon([bench.reserve(A), bench.reserve(B)])
    assert bench.store.slots_in_use() == 0
    assert not bench.found(A)
    bench.stored(A)
    assert bench.found(A)


def test_a_reserved_slot_is_nobody_elses_until_it_is_let_go(bench: Bench) -> None:
    """Publication is not enough: requests that waited for the window have no lease yet."""
    published, _ = bench.stored(A), bench.reserve(B)
    with pytest.raises(Overloaded, match="all 2 slots"):
        bench.reserve(C)
    bench.store.let_go(published)
    assert bench.reserve(C).slot.index == published.slot.index


def test_a_lease_outlives_the_reservation(bench: Bench) -> None:
    published, _ = bench.stored(A), bench.reserve(B)
    ref = bench.store.lease(published, IDENTITY, NOW)
    bench.store.let_go(published)
    with pytest.raises(Overloaded):
        bench.reserve(C)
    bench.store.release(str(ref.lease).encode())
    bench.reserve(C)


def test_what_a_window_supersedes_makes_room_for_it(bench: Bench) -> None:
    for key in (A, B):
        bench.store.let_go(bench.stored(key))
    bench.reserve(C, supersedes=B)
    assert bench.found(A) and not bench.found(B)


def test_a_window_found_to_be_wrong_before_it_is_let_go_is_free_afterwards(bench: Bench) -> None:
    published = bench.stored(A)
    bench.slab.invalidate(published.slot.index)
    assert not bench.found(A)
    assert bench.store.slots_in_use() == 1
    bench.store.let_go(published)
    assert bench.store.slots_in_use() == 0
