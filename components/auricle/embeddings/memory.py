"""Slabs in host memory and on a device."""

from __future__ import annotations

import mmap
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from auricle.embeddings.layout import HEADER_BYTES, Bytes, SlabLayout
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab


class Mapped:
    """One block of host memory; other processes of the same user can map a block with a `name`.

    A shared block is an anonymous file, reached through /proc: nothing remains after its process
    ends, and the size of /dev/shm (small in containers) is not a limit.
    """

    def __init__(self, size: int, descriptor: int = -1, name: str | None = None) -> None:
        self.bytes: Bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self.name = name
        self._descriptor = descriptor

    @classmethod
    def shared(cls, size: int) -> Mapped:
        """Allocate memory that other processes can `attach` until `unlink`."""
        descriptor = os.memfd_create("auricle-slab")
        os.ftruncate(descriptor, size)
        return cls(size, descriptor, f"/proc/{os.getpid()}/fd/{descriptor}")

    @classmethod
    def attach(cls, size: int, name: str) -> Mapped:
        """Map memory that another process has allocated and not unlinked yet."""
        with Path(name).open("r+b") as file:
            mapped = cls(size, file.fileno(), name)
        mapped._descriptor = -1  # closed, and not ours to unlink
        return mapped

    @property
    def address(self) -> int:
        return int(self.bytes.ctypes.data)

    def unlink(self) -> None:
        """Refuse further `attach`; the memory remains until the last process has unmapped it."""
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1


class HostSlab(Slab):
    """A slab in one block of host memory: first the embeddings of all slots, then the headers."""

    def __init__(self, layout: SlabLayout, count: int, block: Mapped) -> None:
        self._block = block
        self._memory = block.bytes
        self._headers_at = count * layout.payload_stride
        super().__init__(layout, count, self._memory[self._headers_at :])

    @classmethod
    def private(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Allocate memory that only this process can access."""
        return cls(layout, count, Mapped(layout.slot_bytes * count))

    @classmethod
    def create_shared(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Allocate memory that processes of the same user can attach to until `unlink`."""
        return cls(layout, count, Mapped.shared(layout.slot_bytes * count))

    @classmethod
    def attach(cls, layout: SlabLayout, count: int, name: str) -> HostSlab:
        """Map a slab that another process has created and not unlinked yet."""
        return cls(layout, count, Mapped.attach(layout.slot_bytes * count, name))

    @property
    def name(self) -> str | None:
        """The name that other processes attach to; None if the memory is private."""
        return self._block.name

    def exported(self) -> dict[str, Any]:
        return {"memory": "host", "slab": self.name}

    def open(self) -> None:
        """Do nothing: `attach` has mapped the memory."""

    def unlink(self) -> None:
        self._block.unlink()

    def close(self) -> None:
        """Do nothing: memory is unmapped with its last view."""

    def bind_thread(self) -> None:
        """Do nothing: every thread can access host memory."""

    @property
    def payloads(self) -> Region:
        return Region(self._block.address, self._headers_at)

    def fill(self, index: int, payload: Bytes) -> None:
        self.layout.check_payload(payload.nbytes)
        start = index * self.layout.payload_stride
        self._memory[start : start + payload.nbytes] = payload

    def synchronize(self) -> None:
        """Do nothing: writes to host memory are complete at once."""

    def checksum(self, index: int, length: int) -> int:
        return zlib.crc32(self.payload(index, length).data)

    def payload(self, index: int, length: int) -> Bytes:
        """Return a slot's first `length` embeddings as a view, shape (bytes,)."""
        start = index * self.layout.payload_stride
        return self._memory[start : start + self.layout.payload_bytes(length)]

    def gather(self, slots: Sequence[tuple[int, int]]) -> list[Bytes]:
        return [self.payload(index, length).copy() for index, length in slots]


class DeviceMemory(ABC):
    """One allocation on a device. Each thread's operations are queued there in call order."""

    kind: str  # selects how another process opens it, see slabs.py

    @property
    @abstractmethod
    def bytes(self) -> torch.Tensor:
        """The whole allocation, shape (bytes,). Maps another process's memory on first use.

        Raises ProcessFailed if the device refuses that.
        """

    @property
    @abstractmethod
    def region(self) -> Region:
        """The whole allocation, for registration with NIXL."""

    @abstractmethod
    def handle(self) -> str:
        """Return the handle by which another process opens it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all operations queued by this thread are complete."""

    @abstractmethod
    def bind_thread(self) -> None:
        """Prepare the calling thread for work on the device."""

    @abstractmethod
    def close(self) -> None:
        """Unmap another process's memory, or free this process's own."""

    def put(self, at: int, rows: torch.Tensor) -> None:
        """Queue a copy of `rows` (bytes, on the device or the host) to the offset `at`."""
        self.bytes[at : at + rows.numel()].copy_(rows, non_blocking=True)

    def gather(self, pieces: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
        """Queue a copy of each piece (offset, size) to its own new memory."""
        everything = self.bytes
        sources = [everything[at : at + size] for at, size in pieces]
        copies = [torch.empty_like(source) for source in sources]
        torch._foreach_copy_(copies, sources)  # one kernel for all of them
        return copies


class DeviceSlab(Slab):
    """A slab with embeddings in the `memory` of a device, and its headers in host memory.

    Embeddings never reach the host, and no kernel of ours runs. It has no checksums, so a
    transfer that damages bytes and reports success is not detected.
    """

    on_device = True

    def __init__(
        self, layout: SlabLayout, count: int, headers: Mapped, memory: DeviceMemory
    ) -> None:
        super().__init__(layout, count, headers.bytes)
        self._table = headers
        self._memory = memory

    @staticmethod
    def sizes(layout: SlabLayout, count: int) -> tuple[int, int]:
        """Return the size of the embeddings and of the headers of `count` slots, in bytes."""
        return layout.payload_stride * count, HEADER_BYTES * count

    def exported(self) -> dict[str, Any]:
        return {
            "memory": self._memory.kind,
            "slab": self._table.name,
            "payloads": self._memory.handle(),
        }

    def open(self) -> None:
        _ = self._memory.bytes

    def unlink(self) -> None:
        self._table.unlink()

    def close(self) -> None:
        self._memory.close()

    @property
    def payloads(self) -> Region:
        return self._memory.region

    def bind_thread(self) -> None:
        self._memory.bind_thread()

    def fill(self, index: int, payload: Bytes | torch.Tensor) -> None:
        """Also takes device tensors of any type; the copy is complete after `synchronize`."""
        tensor = payload if isinstance(payload, torch.Tensor) else torch.from_numpy(payload)
        rows = tensor.contiguous().view(-1).view(torch.uint8)
        self.layout.check_payload(rows.numel())
        self._memory.put(index * self.layout.payload_stride, rows)

    def synchronize(self) -> None:
        self._memory.synchronize()

    def checksum(self, _index: int, _length: int) -> None:
        return None

    def gather(self, slots: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
        stride = self.layout.payload_stride
        return self._memory.gather(
            [(index * stride, self.layout.payload_bytes(length)) for index, length in slots]
        )
