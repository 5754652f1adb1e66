"""A slot's header proves its content; all else is rejected."""

from itertools import pairwise

import numpy as np
import pytest

from auricle.core.errors import TransferFailed
from auricle.embeddings.layout import HEADER_BYTES, SlabLayout
from auricle.embeddings.memory import HostSlab

pytestmark = pytest.mark.unit

LAYOUT = SlabLayout(width=8, item_bytes=4, max_length=10)
KEY = "ab" * 24
PAYLOAD = np.arange(5 * 32, dtype=np.uint8)


@pytest.fixture
def slab() -> HostSlab:
    slab = HostSlab.private(LAYOUT, 2)
    slab.write(1, KEY, 7, PAYLOAD)
    return slab


def test_what_was_written_verifies(slab: HostSlab) -> None:
    slab.verify(1, KEY, 7, 5)
    np.testing.assert_array_equal(slab.payload(1, 5), PAYLOAD)


@pytest.mark.parametrize(
    ("key", "generation", "length", "named"),
    [("cd" * 24, 7, 5, "key"), (KEY, 8, 5, "generation"), (KEY, 7, 4, "length")],
)
def test_a_slot_with_other_content_is_named(
    slab: HostSlab, key: str, generation: int, length: int, named: str
) -> None:
    with pytest.raises(TransferFailed, match=named):
        slab.verify(1, key, generation, length)


def test_a_flipped_bit_is_found(slab: HostSlab) -> None:
    slab.payload(1, 5)[17] ^= 1
    with pytest.raises(TransferFailed, match="checksum"):
        slab.verify(1, KEY, 7, 5)


def test_a_slot_that_is_being_written_has_no_header(slab: HostSlab) -> None:
    """Meanwhile a reader accepts neither the old content nor the new one."""
    slab.invalidate(1)
    for generation in (7, 8):
        with pytest.raises(TransferFailed, match="magic 00000000"):
            slab.verify(1, KEY, generation, 5)
    slab.fill(1, PAYLOAD[::-1].copy())
    assert slab.mismatch(1, KEY, 8, 5) is not None
    slab.commit(1, KEY, 8, 5)
    slab.verify(1, KEY, 8, 5)


def test_restamping_changes_only_the_generation(slab: HostSlab) -> None:
    slab.set_generation(1, 99)
    slab.verify(1, KEY, 99, 5)


def test_slots_and_their_headers_are_apart_and_do_not_overlap(slab: HostSlab) -> None:
    payloads, headers = slab.regions
    assert payloads.address + payloads.size == headers.address
    assert payloads.size + headers.size == 2 * LAYOUT.slot_bytes
    ends = []
    for index in range(2):
        place = slab.regions_of(index, LAYOUT.max_length)
        assert payloads.address <= place.payload.address
        assert place.payload.address + place.payload.size <= headers.address
        assert place.header.size == HEADER_BYTES
        ends += [(r.address, r.address + r.size) for r in (place.payload, place.header)]
    ends.sort()
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


@pytest.mark.parametrize("size", [0, 31, 11 * 32])
def test_a_payload_that_does_not_fit_is_refused(slab: HostSlab, size: int) -> None:
    with pytest.raises(ValueError, match="1 to 10 embeddings"):
        slab.write(1, KEY, 1, np.zeros(size, np.uint8))


@pytest.mark.parametrize("size", [16, 25])
def test_a_key_of_another_size_is_refused(slab: HostSlab, size: int) -> None:
    """If it were padded or truncated, no reader would find it."""
    with pytest.raises(ValueError, match=f"a key of {size} bytes is not one of 24"):
        slab.write(1, "ab" * size, 1, np.zeros(32, np.uint8))


def test_a_shared_slab_is_the_same_memory_and_leaves_no_name() -> None:
    owner = HostSlab.create_shared(LAYOUT, 2)
    assert owner.name is not None
    other = HostSlab.attach(LAYOUT, 2, owner.name)
    owner.unlink()
    owner.write(1, KEY, 3, PAYLOAD)
    other.verify(1, KEY, 3, 5)
    with pytest.raises(FileNotFoundError):
        HostSlab.attach(LAYOUT, 2, owner.name)
