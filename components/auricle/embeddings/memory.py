"""The memory of a slab: one preallocated block."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from auricle.embeddings.layout import Bytes, SlabLayout
from auricle.embeddings.nixl import Region


class HostSlab:
    """`count` slots in host memory; other processes can map a slab that has a `name`."""

    def __init__(self, layout: SlabLayout, count: int, memory: Bytes, name: str | None) -> None:
        self.layout = layout
        self.count = count
        self.name = name
        self._memory = memory
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

    @property
    def region(self) -> Region:
        """The whole slab, for registration with NIXL."""
        return Region(self._memory.ctypes.data, self._memory.nbytes)

    def slot(self, index: int) -> Bytes:
        """Return the bytes of one slot, shape (slot_bytes,), as a view."""
        start = index * self.layout.slot_bytes
        return self._memory[start : start + self.layout.slot_bytes]

    def slot_region(self, index: int, length: int) -> Region:
        """Return the region of one slot's header and `length` embeddings, for a transfer."""
        start = self._memory.ctypes.data + index * self.layout.slot_bytes
        return Region(start, self.layout.content_bytes(length))


def _map(descriptor: int, size: int) -> Bytes:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
