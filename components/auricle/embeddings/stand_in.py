"""A stand-in for a GPU's memory, for tests on machines without one. No setting selects it.

It is host memory behind the interface of a device: whatever a device slab does but the calls of
CUDA runs, in one process or several.
"""

from __future__ import annotations

import torch

from auricle.embeddings.device_memory import DeviceMemory
from auricle.embeddings.mapped import Mapped
from auricle.embeddings.reads import Region


class StandInMemory(DeviceMemory):
    """Host memory; work is done when it is queued."""

    kind = "stand-in"

    def __init__(self, block: Mapped) -> None:
        self._block = block
        self._bytes = torch.from_numpy(block.bytes)
        self.settled = 0  # calls of `settle`

    @classmethod
    def allocate(cls, size: int) -> StandInMemory:
        """Allocate memory that other processes can open."""
        return cls(Mapped.shared(size))

    @classmethod
    def open(cls, handle: str) -> StandInMemory:
        """Open another process's memory."""
        size, _, name = handle.partition(" ")
        return cls(Mapped.attach(int(size), name))

    @property
    def bytes(self) -> torch.Tensor:
        return self._bytes

    @property
    def region(self) -> Region:
        return Region(self._block.address, len(self._bytes))

    def handle(self) -> str:
        return f"{len(self._bytes)} {self._block.name}"

    def settle(self) -> None:
        self.settled += 1

    def enter_thread(self) -> None:
        """Do nothing: host memory is every thread's."""

    def close(self) -> None:
        """Do nothing: memory is unmapped with its last view."""
