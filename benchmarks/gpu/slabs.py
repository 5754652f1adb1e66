"""Slabs whose embeddings are in one kind of memory or the other."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from auricle.embeddings.layout import HEADER_BYTES, Bytes, SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.reads import Place, Region
from auricle.errors import TransferFailed


class Slab(Protocol):
    """What the benchmark needs of a slab; see `HostSlab`."""

    count: int

    @property
    def regions(self) -> tuple[Region, Region]: ...

    def place(self, index: int, length: int) -> Place: ...

    def write(self, index: int, key: str, generation: int, payload: Bytes) -> None: ...

    def invalidate(self, index: int) -> None: ...

    def verify(self, index: int, key: str, generation: int, length: int) -> None: ...

    def payload(self, index: int, length: int) -> Bytes: ...


def slab_in(memory: str, layout: SlabLayout, count: int) -> Slab:
    """Allocate a slab in `dram` or `vram`."""
    return DeviceSlab(layout, count) if memory == "vram" else HostSlab.private(layout, count)


class DeviceSlab:
    """Embeddings on the first GPU, headers in host memory."""

    def __init__(self, layout: SlabLayout, count: int) -> None:
        self.count = count
        self._layout = layout
        size = count * layout.payload_stride
        self._payloads = torch.zeros(size, dtype=torch.uint8, device="cuda")
        self._headers = np.zeros((count, HEADER_BYTES), np.uint8)
        torch.cuda.synchronize()  # before anybody else is told of it

    @property
    def regions(self) -> tuple[Region, Region]:
        """All embeddings and all headers."""
        size = self._payloads.numel()
        return (
            Region(self._payloads.data_ptr(), size, 0, "VRAM"),
            Region(self._headers.ctypes.data, self._headers.nbytes),
        )

    def place(self, index: int, length: int) -> Place:
        """Return where a slot's embeddings and header are."""
        payload, headers = self.regions
        at = payload.address + index * self._layout.payload_stride
        return Place(
            Region(at, self._layout.payload_bytes(length), payload.device, payload.memory),
            Region(headers.address + index * HEADER_BYTES, HEADER_BYTES),
        )

    def write(self, index: int, key: str, generation: int, payload: Bytes) -> None:
        """Replace a slot's content; nobody computes a checksum on a GPU."""
        self.invalidate(index)
        self._rows(index, payload.nbytes).copy_(torch.from_numpy(payload))
        torch.cuda.synchronize()
        length = payload.nbytes // self._layout.row_bytes
        self._headers[index] = self._layout.header(key, generation, length, 0)

    def invalidate(self, index: int) -> None:
        """Clear a slot's header."""
        self._headers[index] = 0

    def verify(self, index: int, key: str, generation: int, length: int) -> None:
        """Raise TransferFailed unless the header has these values."""
        wrong = self._layout.mismatch(self._headers[index], key, generation, length)
        if wrong is not None:
            raise TransferFailed(wrong)

    def payload(self, index: int, length: int) -> Bytes:
        """Return a copy of a slot's embeddings."""
        rows: Bytes = self._rows(index, self._layout.payload_bytes(length)).cpu().numpy()
        return rows

    def _rows(self, index: int, size: int) -> torch.Tensor:
        start = index * self._layout.payload_stride
        return self._payloads[start : start + size]
