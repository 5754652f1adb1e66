"""A slab in host memory: one block, first the embeddings of all slots, then the headers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from auricle.embeddings.layout import Bytes, SlabLayout
from auricle.embeddings.mapped import Mapped
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab


class HostSlab(Slab):
    """Slots in host memory; other processes can map a slab that has a `name`."""

    def __init__(self, layout: SlabLayout, count: int, block: Mapped) -> None:
        self._block = block
        self._memory = block.bytes
        self._headers_at = count * layout.payload_stride
        super().__init__(layout, count, self._memory[self._headers_at :])

    @classmethod
    def private(cls, layout: SlabLayout, count: int) -> HostSlab:
        """Allocate memory that only this process can access."""
        return cls(layout, count, Mapped.private(layout.slot_bytes * count))

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
        """What other processes attach to."""
        return self._block.name

    def exported(self) -> dict[str, Any]:
        return {"memory": "host", "slab": self.name}

    def open(self) -> None:
        """Do nothing: it was mapped by `attach`."""

    def unlink(self) -> None:
        self._block.unlink()

    def close(self) -> None:
        """Do nothing: memory is unmapped with its last view."""

    def enter_thread(self) -> None:
        """Do nothing: host memory is every thread's."""

    @property
    def payloads(self) -> Region:
        return Region(self._block.address, self._headers_at)

    def fill(self, index: int, payload: Bytes) -> None:
        self.layout.check_payload(payload.nbytes)
        start = index * self.layout.payload_stride
        self._memory[start : start + payload.nbytes] = payload

    def settle(self) -> None:
        """Do nothing: what was filled is there."""

    def checksum(self, index: int, length: int) -> int:
        return zlib.crc32(self.payload(index, length).data)

    def payload(self, index: int, length: int) -> Bytes:
        """Return a slot's first `length` embeddings as a view, shape (bytes,)."""
        start = index * self.layout.payload_stride
        return self._memory[start : start + self.layout.payload_bytes(length)]

    def gather(self, slots: Sequence[tuple[int, int]]) -> list[Bytes]:
        return [self.payload(index, length).copy() for index, length in slots]
