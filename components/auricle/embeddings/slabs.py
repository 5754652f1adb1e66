"""Allocates a process's slab in host or GPU memory, and attaches to another process's slab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from auricle.embeddings.cuda import CudaMemory
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import DeviceMemory, DeviceSlab, HostSlab, Mapped
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab


def new_slab(layout: SlabLayout, count: int, *, device: str | None, shared: bool) -> Slab:
    """Allocate a slab on `device`, or in host memory for None; others can attach if `shared`."""
    if device is None:
        return (HostSlab.create_shared if shared else HostSlab.private)(layout, count)
    payloads, headers = DeviceSlab.sizes(layout, count)
    table = (Mapped.shared if shared else Mapped)(headers)
    return DeviceSlab(layout, count, table, CudaMemory.allocate(device, payloads))


def export(slab: Slab) -> dict[str, Any]:
    """Return, as plain values, the parameters that `attach` takes in another process."""
    layout = slab.layout
    return {
        "slots": slab.count,
        "width": layout.width,
        "item_bytes": layout.item_bytes,
        "max_length": layout.max_length,
        **slab.exported(),
    }


def attach(exported: Mapping[str, Any]) -> Slab:
    """Attach to another process's slab. GPU memory is mapped on first use."""
    layout = SlabLayout(exported["width"], exported["item_bytes"], exported["max_length"])
    count, name, kind = exported["slots"], exported["slab"], exported["memory"]
    if kind == "host":
        return HostSlab.attach(layout, count, name)
    _, headers = DeviceSlab.sizes(layout, count)
    memory = (CudaMemory if kind == "cuda" else FakeDeviceMemory).open(exported["payloads"])
    return DeviceSlab(layout, count, Mapped.attach(headers, name), memory)


class FakeDeviceMemory(DeviceMemory):
    """Host memory behind the interface of a device, for tests without a GPU. Not configurable."""

    kind = "fake"

    def __init__(self, block: Mapped) -> None:
        self._block = block
        self._bytes = torch.from_numpy(block.bytes)
        self.synchronized = 0  # calls of `synchronize`

    @classmethod
    def allocate(cls, size: int) -> FakeDeviceMemory:
        return cls(Mapped.shared(size))

    @classmethod
    def open(cls, handle: str) -> FakeDeviceMemory:
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
        """Do nothing: every thread can access host memory."""

    def close(self) -> None:
        """Do nothing: memory is unmapped with its last view."""
