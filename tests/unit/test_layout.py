"""A slot's header proves its content; anything else is refused."""

import numpy as np
import pytest

from auricle.embeddings.layout import HEADER_BYTES, SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.errors import TransferFailed

pytestmark = pytest.mark.unit

LAYOUT = SlabLayout(width=8, item_bytes=4, max_length=10)
KEY = "ab" * 24


@pytest.fixture
def slot() -> np.ndarray:
    slab = HostSlab.private(LAYOUT, 2)
    payload = np.arange(5 * 32, dtype=np.uint8)
    LAYOUT.write(slab.slot(1), KEY, 7, payload)
    return slab.slot(1)


def test_what_was_written_verifies(slot: np.ndarray) -> None:
    LAYOUT.verify(slot, KEY, 7, 5)
    assert slot[HEADER_BYTES + 3] == 3


@pytest.mark.parametrize(
    ("key", "generation", "length", "named"),
    [("cd" * 24, 7, 5, "key"), (KEY, 8, 5, "generation"), (KEY, 7, 4, "length")],
)
def test_a_slot_with_other_content_is_named(
    slot: np.ndarray, key: str, generation: int, length: int, named: str
) -> None:
    with pytest.raises(TransferFailed, match=named):
        LAYOUT.verify(slot, key, generation, length)


def test_a_flipped_bit_is_found(slot: np.ndarray) -> None:
    slot[HEADER_BYTES + 17] ^= 1
    with pytest.raises(TransferFailed, match="checksum"):
        LAYOUT.verify(slot, KEY, 7, 5)


def test_restamping_changes_only_the_generation(slot: np.ndarray) -> None:
    LAYOUT.restamp(slot, 99)
    LAYOUT.verify(slot, KEY, 99, 5)


def test_a_payload_that_does_not_fit_is_refused(slot: np.ndarray) -> None:
    for size in (0, 31, 11 * 32):
        with pytest.raises(ValueError, match="1 to 10 embeddings"):
            LAYOUT.write(slot, KEY, 1, np.zeros(size, np.uint8))


@pytest.mark.parametrize("size", [16, 25])
def test_a_key_of_another_size_is_refused(slot: np.ndarray, size: int) -> None:
    """Padded or cut, it would be one that no reader finds."""
    with pytest.raises(ValueError, match=f"a key of {size} bytes is not one of 24"):
        LAYOUT.write(slot, "ab" * size, 1, np.zeros(32, np.uint8))


def test_a_shared_slab_is_the_same_memory_and_leaves_no_name() -> None:
    owner = HostSlab.create_shared(LAYOUT, 2)
    assert owner.name is not None
    other = HostSlab.attach(LAYOUT, 2, owner.name)
    owner.unlink()
    owner.slot(0)[:3] = (1, 2, 3)
    assert list(other.slot(0)[:3]) == [1, 2, 3]
    with pytest.raises(FileNotFoundError):
        HostSlab.attach(LAYOUT, 2, owner.name)
