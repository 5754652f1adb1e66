"""The memory behind a slab: one preallocated block, host or device."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import Region

Bytes = npt.NDArray[np.uint8]


class HostSlab:
    """`count` slots in host memory, as bytes; with a `name` other processes can map it."""

    def __init__(self, layout: SlabLayout, count: int, memory: Bytes, name: str | None) -> None:
        self.layout = layout
        self.count = count
        self.name = name
        self._memory = memory
        self._descriptor: int | None = None

    @classmethod
    def private(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Memory of this process alone."""
        block = mmap.mmap(-1, layout.slot_bytes * count)
        return cls(layout, count, np.frombuffer(block, np.uint8), None)

    @classmethod
    def create_shared(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Memory that processes of the same user find by name until `unlink`.

        An anonymous file reached through /proc: nothing is left behind however
        this process ends, and a container's small /dev/shm does not matter.
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
        """Map the slab another process created."""
        with Path(name).open("r+b") as file:
            memory = _map(file.fileno(), layout.slot_bytes * count)
        return cls(layout, count, memory, name)

    def unlink(self) -> None:
        """Nobody can attach any more; the memory lives until the last process has unmapped it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def region(self) -> Region:
        """All of it, for registration."""
        return Region(self._memory.ctypes.data, self._memory.nbytes)

    def slot(self, index: int) -> Bytes:
        """The bytes of one slot."""
        start = index * self.layout.slot_bytes
        return self._memory[start : start + self.layout.slot_bytes]

    def slot_region(self, index: int, length: int) -> Region:
        """Header and `length` embeddings of one slot, for a transfer."""
        start = self._memory.ctypes.data + index * self.layout.slot_bytes
        return Region(start, self.layout.content_bytes(length))


def _map(descriptor: int, size: int) -> Bytes:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
