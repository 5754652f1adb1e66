"""A slab whose embeddings are on a device. They never touch the host, and no kernel of ours runs.

Headers are in host memory, as everywhere. They are the proof that the embeddings which were read
before them are those of a window (see layout.py). There are no checksums: what could not be seen
without one is a transfer that damages bytes and reports success.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from auricle.embeddings.device_memory import DeviceMemory, as_bytes
from auricle.embeddings.layout import HEADER_BYTES, Bytes, SlabLayout
from auricle.embeddings.mapped import Mapped
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab


class DeviceSlab(Slab):
    """Slots in the `memory` of a device; `headers` are `count` of them."""

    on_device = True

    def __init__(
        self, layout: SlabLayout, count: int, headers: Mapped, memory: DeviceMemory
    ) -> None:
        super().__init__(layout, count, headers.bytes)
        self._table = headers
        self._memory = memory

    @staticmethod
    def sizes(layout: SlabLayout, count: int) -> tuple[int, int]:
        """Return the bytes that embeddings and headers of `count` slots take."""
        return layout.payload_stride * count, HEADER_BYTES * count

    def exported(self) -> dict[str, Any]:
        return {
            "memory": self._memory.kind,
            "slab": self._table.name,
            "payloads": self._memory.handle(),
        }

    def open(self) -> None:
        self._memory.open_now()

    def unlink(self) -> None:
        self._table.unlink()

    def close(self) -> None:
        self._memory.close()

    @property
    def payloads(self) -> Region:
        return self._memory.region

    def enter_thread(self) -> None:
        self._memory.enter_thread()

    def fill(self, index: int, payload: Bytes | torch.Tensor) -> None:
        """Takes tensors of any type, on the device, as well; writing goes on until `settle`."""
        rows = as_bytes(payload)
        self.layout.check_payload(rows.numel())
        self._memory.put(index * self.layout.payload_stride, rows)

    def settle(self) -> None:
        self._memory.settle()

    def checksum(self, _index: int, _length: int) -> None:
        return None

    def gather(self, slots: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
        stride = self.layout.payload_stride
        return self._memory.gather(
            [(index * stride, self.layout.payload_bytes(length)) for index, length in slots]
        )
