"""Which kind of slab a process has, and how another process attaches to it.

The files that need PyTorch are imported when a slab is on a device only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import DeviceMemory, HostSlab, Mapped
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab

if TYPE_CHECKING:
    from auricle.embeddings.memory import DeviceMemory


def new_slab(layout: SlabLayout, count: int, *, device: str | None, shared: bool) -> Slab:
    """Allocate a slab on `device`, a GPU, or in host memory if there is None.

    Other processes can attach to one that is `shared`.
    """
    if device is None:
        return (HostSlab.create_shared if shared else HostSlab.private)(layout, count)
    from auricle.embeddings.cuda import CudaMemory
    from auricle.embeddings.memory import DeviceSlab

    payloads, headers = DeviceSlab.sizes(layout, count)
    table = (Mapped.shared if shared else Mapped.private)(headers)
    return DeviceSlab(layout, count, table, CudaMemory.allocate(device, payloads))


def export(slab: Slab) -> dict[str, Any]:
    """Return what `attach` takes in another process, as plain values."""
    layout = slab.layout
    return {
        "slots": slab.count,
        "width": layout.width,
        "item_bytes": layout.item_bytes,
        "max_length": layout.max_length,
        **slab.exported(),
    }


def attach(exported: Mapping[str, Any]) -> Slab:
    """Attach to another process's slab. Memory of a GPU is opened when it is used."""
    layout = SlabLayout(exported["width"], exported["item_bytes"], exported["max_length"])
    count, name = exported["slots"], exported["slab"]
    if exported["memory"] == "host":
        return HostSlab.attach(layout, count, name)
    from auricle.embeddings.memory import DeviceSlab

    _, headers = DeviceSlab.sizes(layout, count)
    memory = _opened(exported["memory"], exported["payloads"])
    return DeviceSlab(layout, count, Mapped.attach(headers, name), memory)


def _opened(kind: str, handle: str) -> DeviceMemory:
    if kind == "cuda":
        from auricle.embeddings.cuda import CudaMemory

        return CudaMemory.open(handle)

    return FakeDeviceMemory.open(handle)


# A stand-in for a GPU's memory, for tests on machines without one. No setting selects it.
#
# It is host memory behind the interface of a device: whatever a device slab does but the calls of
# CUDA runs, in one process or several.


class FakeDeviceMemory(DeviceMemory):
    """Host memory; work is done when it is queued."""

    kind = "stand-in"

    def __init__(self, block: Mapped) -> None:
        self._block = block
        self._bytes = torch.from_numpy(block.bytes)
        self.synchronized = 0  # calls of `synchronize`

    @classmethod
    def allocate(cls, size: int) -> FakeDeviceMemory:
        """Allocate memory that other processes can open."""
        return cls(Mapped.shared(size))

    @classmethod
    def open(cls, handle: str) -> FakeDeviceMemory:
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

    def synchronize(self) -> None:
        self.synchronized += 1

    def bind_thread(self) -> None:
        """Do nothing: host memory is every thread's."""

    def close(self) -> None:
        """Do nothing: memory is unmapped with its last view."""
