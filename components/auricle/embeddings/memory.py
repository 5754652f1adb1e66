"""The memory behind a slab: one preallocated block, host or device."""

from __future__ import annotations

import mmap
import os
import uuid
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.nixl import Region

Bytes = npt.NDArray[np.uint8]
_SHARED_DIRECTORY = Path("/dev/shm")


class HostSlab:
    """`count` slots in host memory, as bytes; `name` set means other processes can map it."""

    def __init__(self, layout: SlabLayout, count: int, memory: Bytes, name: str | None) -> None:
        self.layout = layout
        self.count = count
        self.name = name
        self._memory = memory

    @classmethod
    def private(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Memory of this process alone."""
        block = mmap.mmap(-1, layout.slot_bytes * count)
        return cls(layout, count, np.frombuffer(block, np.uint8), None)

    @classmethod
    def create_shared(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Memory that `attach` finds by name; call `unlink` once everyone has attached."""
        path = _SHARED_DIRECTORY / f"auricle-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        size = layout.slot_bytes * count
        with path.open("xb") as file:
            path.chmod(0o600)
            file.truncate(size)
        return cls(layout, count, _map(path, size), str(path))

    @classmethod
    def attach(cls, layout: SlabLayout, count: int, name: str) -> HostSlab:
        """Map the slab another process created."""
        return cls(layout, count, _map(Path(name), layout.slot_bytes * count), name)

    def unlink(self) -> None:
        """Remove the name; the memory lives until the last process has unmapped it."""
        if self.name is not None:
            Path(self.name).unlink(missing_ok=True)

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


def _map(path: Path, size: int) -> Bytes:
    with path.open("r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
