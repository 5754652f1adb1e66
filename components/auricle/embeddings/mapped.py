"""Host memory of a slab: private to this process, or such that others can map it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from auricle.embeddings.layout import Bytes


class Mapped:
    """`bytes` in one block; other processes of the same user can map one that has a `name`.

    A shared block is an anonymous file, reached through /proc: nothing is left behind however its
    process ends, and the size of /dev/shm (small in containers) does not limit it.
    """

    def __init__(self, size: int, descriptor: int = -1, name: str | None = None) -> None:
        self.bytes: Bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self.name = name
        self._descriptor = descriptor

    @classmethod
    def private(cls, size: int) -> Mapped:
        """Allocate memory that only this process can access."""
        return cls(size)

    @classmethod
    def shared(cls, size: int) -> Mapped:
        """Allocate memory that other processes can `attach` until `unlink`."""
        descriptor = os.memfd_create("auricle-slab")
        os.ftruncate(descriptor, size)
        return cls(size, descriptor, f"/proc/{os.getpid()}/fd/{descriptor}")

    @classmethod
    def attach(cls, size: int, name: str) -> Mapped:
        """Map what another process has allocated and not unlinked yet."""
        with Path(name).open("r+b") as file:
            mapped = cls(size, file.fileno(), name)
        mapped._descriptor = -1  # closed, and not ours to unlink
        return mapped

    @property
    def address(self) -> int:
        """Where it begins in this process."""
        return int(self.bytes.ctypes.data)

    def unlink(self) -> None:
        """Refuse further `attach`; the memory remains until the last process has unmapped it."""
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1
