"""The base class of slabs: slots, their headers, and the order in which they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from auricle.core.errors import TransferFailed
from auricle.embeddings.layout import HEADER_BYTES, Bytes, SlabLayout
from auricle.embeddings.reads import Region, SlotRegions


class Slab(ABC):
    """`count` slots: embeddings in host or device memory, headers always in host memory.

    Writing order: `invalidate`, `fill`, `synchronize`, `commit`. One `synchronize` covers all slots
    filled before it. One writer at a time; any number of readers.
    """

    on_device = False  # whether the embeddings are on a GPU

    def __init__(self, layout: SlabLayout, count: int, headers: Bytes) -> None:
        self.layout = layout
        self.count = count
        self._headers = headers

    # ── for other processes ─────────────────────────────────────────────────

    @abstractmethod
    def exported(self) -> dict[str, Any]:
        """Return, as plain values, the parameters that `slabs.attach` takes."""

    @abstractmethod
    def open(self) -> None:
        """Map another process's slab now. Raises ProcessFailed if the device refuses it."""

    @abstractmethod
    def unlink(self) -> None:
        """Refuse further processes; attached processes keep the slab."""

    @abstractmethod
    def close(self) -> None:
        """Unmap another process's slab, or free memory of a device that is this process's own."""

    # ── for transfers ───────────────────────────────────────────────────────

    @property
    @abstractmethod
    def payloads(self) -> Region:
        """The embeddings of all slots."""

    @property
    def regions(self) -> tuple[Region, Region]:
        """All embeddings and all headers, for registration with NIXL."""
        return self.payloads, Region(self._headers.ctypes.data, self.count * HEADER_BYTES)

    def regions_of(self, index: int, length: int) -> SlotRegions:
        """Return the regions of a slot's first `length` embeddings and of its header."""
        payloads, headers = self.regions
        return SlotRegions(
            Region(
                payloads.address + index * self.layout.payload_stride,
                self.layout.payload_bytes(length),
                payloads.device,
                payloads.memory,
            ),
            Region(headers.address + index * HEADER_BYTES, HEADER_BYTES),
        )

    @abstractmethod
    def bind_thread(self) -> None:
        """Prepare the calling thread for transfers of this memory."""

    # ── for writers ─────────────────────────────────────────────────────────

    def invalidate(self, index: int) -> None:
        """Clear a slot's header, so that readers do not take new embeddings for the old ones."""
        self.header(index)[:] = 0

    @abstractmethod
    def fill(self, index: int, payload: Any) -> None:
        """Begin to write embeddings into an invalidated slot.

        `payload` is whole rows as host bytes, shape (bytes,). Raises ValueError unless they are 1
        to `max_length` embeddings.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until every `fill` and `gather` of this thread is complete."""

    def commit(self, index: int, key: str, generation: int, length: int) -> None:
        """Write the header of a filled slot, after which its content verifies."""
        checksum = self.checksum(index, length)
        self.header(index)[:] = self.layout.header(key, generation, length, checksum)

    def write(self, index: int, key: str, generation: int, payload: Bytes) -> None:
        """Replace a slot's content. Raises ValueError as `fill` does, and for a malformed key."""
        self.invalidate(index)
        self.fill(index, payload)
        self.synchronize()
        self.commit(index, key, generation, payload.nbytes // self.layout.row_bytes)

    def set_generation(self, index: int, generation: int) -> None:
        """Replace the generation in a slot's header."""
        self.layout.set_generation(self.header(index), generation)

    # ── for readers ─────────────────────────────────────────────────────────

    def header(self, index: int) -> Bytes:
        """Return a slot's header as a view, shape (HEADER_BYTES,)."""
        start = index * HEADER_BYTES
        return self._headers[start : start + HEADER_BYTES]

    @abstractmethod
    def checksum(self, index: int, length: int) -> int | None:
        """Return the crc32 of a slot's first `length` embeddings; None for a device."""

    @abstractmethod
    def gather(self, slots: Sequence[tuple[int, int]]) -> Sequence[Any]:
        """Copy the embeddings of `slots` (index, length), each to its own new memory.

        Returns arrays of bytes, or tensors of bytes on a device, complete after `synchronize`.
        """

    def mismatch(self, index: int, key: str, generation: int, length: int) -> str | None:
        """Return how the slot's header differs from these values; None if it does not."""
        if not 0 <= index < self.count:
            return f"slot {index} is outside the slab"
        return self.layout.mismatch(self.header(index), key, generation, length)

    def verify(self, index: int, key: str, generation: int, length: int) -> None:
        """Raise TransferFailed unless the header has these values and the checksum matches.

        The checksum is not compared where the writer's or the reader's slab is on a device.
        """
        if (wrong := self.mismatch(index, key, generation, length)) is not None:
            raise TransferFailed(wrong)
        expected = self.layout.checksum(self.header(index))
        if expected is None or (found := self.checksum(index, length)) is None:
            return
        if found != expected:
            raise TransferFailed(f"embeddings of {key} do not match their checksum")
