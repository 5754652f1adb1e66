"""Slabs for tests: in host memory, or on a fake device."""

from __future__ import annotations

import torch

from auricle.embeddings.layout import Bytes, SlabLayout
from auricle.embeddings.memory import DeviceSlab, HostSlab, Mapped
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import FakeDeviceMemory

KINDS = ("host", "device")


def slab_in(kind: str, layout: SlabLayout, count: int) -> Slab:
    """Allocate a slab that other processes can attach to."""
    if kind == "host":
        return HostSlab.create_shared(layout, count)
    payloads, headers = DeviceSlab.sizes(layout, count)
    return DeviceSlab(layout, count, Mapped.shared(headers), FakeDeviceMemory.allocate(payloads))


def content(slab: Slab, index: int, length: int) -> Bytes:
    """Return a copy of a slot's embeddings."""
    found: Bytes = torch.as_tensor(slab.gather([(index, length)])[0]).numpy()
    return found
