"""The memory of a slab: one preallocated block, first the embeddings of all slots, then headers."""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path

import numpy as np

from auricle.embeddings.layout import HEADER_BYTES, Bytes, SlabLayout
from auricle.embeddings.reads import Place, Region
from auricle.errors import TransferFailed


class HostSlab:
    """`count` slots in host memory; other processes can map a slab that has a `name`.

    A slot is written in this order: `invalidate`, `fill`, `seal`. It is for one writer at a time;
    any number may read.
    """

    def __init__(self, layout: SlabLayout, count: int, memory: Bytes, name: str | None) -> None:
        self.layout = layout
        self.count = count
        self.name = name
        self._memory = memory
        self._headers_at = count * layout.payload_stride
        self._descriptor: int | None = None

    @classmethod
    def private(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Allocate memory that only this process can access."""
        block = mmap.mmap(-1, layout.slot_bytes * count)
        return cls(layout, count, np.frombuffer(block, np.uint8), None)

    @classmethod
    def create_shared(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Allocate memory that processes of the same user can attach to until `unlink`.

        It is an anonymous file, reached through /proc: nothing is left behind however this
        process ends, and the size of /dev/shm (small in containers) does not limit it.
        """
        descriptor = os.memfd_create("auricle-slab")
        size = layout.slot_bytes * count
        os.ftruncate(descriptor, size)
        name = f"/proc/{os.getpid()}/fd/{descriptor}"
        slab = cls(layout, count, _map(descriptor, size), name)
        slab._descriptor = descriptor
        return slab

    @classmethod
    def attach(cls, layout: SlabLayout, count: int, name: str) -> HostSlab:
        """Map a slab that another process has created and not unlinked yet."""
        with Path(name).open("r+b") as file:
            memory = _map(file.fileno(), layout.slot_bytes * count)
        return cls(layout, count, memory, name)

    def unlink(self) -> None:
        """Refuse further `attach`; the memory remains until the last process has unmapped it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # ── for transfers ───────────────────────────────────────────────────────

    @property
    def regions(self) -> tuple[Region, Region]:
        """All embeddings and all headers, for registration with NIXL."""
        start = self._memory.ctypes.data
        headers_size = self.count * HEADER_BYTES
        return Region(start, self._headers_at), Region(start + self._headers_at, headers_size)

    def place(self, index: int, length: int) -> Place:
        """Return where a slot's first `length` embeddings and its header are."""
        payload, headers = self.regions
        return Place(
            Region(
                payload.address + index * self.layout.payload_stride,
                self.layout.payload_bytes(length),
            ),
            Region(headers.address + index * HEADER_BYTES, HEADER_BYTES),
        )

    # ── for writers ─────────────────────────────────────────────────────────

    def invalidate(self, index: int) -> None:
        """Clear a slot's header, so that nobody takes what is written next for what was there."""
        self.header(index)[:] = 0

    def fill(self, index: int, payload: Bytes) -> None:
        """Write embeddings into an invalidated slot; `payload` is whole rows, shape (bytes,).

        Raises ValueError unless they are 1 to `max_length` embeddings.
        """
        self.layout.check_payload(payload.nbytes)
        start = index * self.layout.payload_stride
        self._memory[start : start + payload.nbytes] = payload

    def seal(self, index: int, key: str, generation: int, length: int) -> None:
        """Write the header of a filled slot, after which its content verifies."""
        checksum = zlib.crc32(self.payload(index, length).data)
        self.header(index)[:] = self.layout.header(key, generation, length, checksum)

    def write(self, index: int, key: str, generation: int, payload: Bytes) -> None:
        """Replace a slot's content. Raises ValueError as `fill` does, and for a malformed key."""
        self.invalidate(index)
        self.fill(index, payload)
        self.seal(index, key, generation, payload.nbytes // self.layout.row_bytes)

    def restamp(self, index: int, generation: int) -> None:
        """Replace the generation in a slot's header."""
        self.layout.restamp(self.header(index), generation)

    # ── for readers ─────────────────────────────────────────────────────────

    def header(self, index: int) -> Bytes:
        """Return a slot's header as a view, shape (HEADER_BYTES,)."""
        start = self._headers_at + index * HEADER_BYTES
        return self._memory[start : start + HEADER_BYTES]

    def payload(self, index: int, length: int) -> Bytes:
        """Return a slot's first `length` embeddings as a view, shape (bytes,)."""
        start = index * self.layout.payload_stride
        return self._memory[start : start + self.layout.payload_bytes(length)]

    def mismatch(self, index: int, key: str, generation: int, length: int) -> str | None:
        """Return None if the slot's header has these values, else how it differs."""
        return self.layout.mismatch(self.header(index), key, generation, length)

    def verify(self, index: int, key: str, generation: int, length: int) -> None:
        """Raise TransferFailed unless the header has these values and the checksum matches."""
        if (wrong := self.mismatch(index, key, generation, length)) is not None:
            raise TransferFailed(wrong)
        checksum = self.layout.checksum(self.header(index))
        if zlib.crc32(self.payload(index, length).data) != checksum:
            raise TransferFailed(f"embeddings of {key} do not match their checksum")


def _map(descriptor: int, size: int) -> Bytes:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
