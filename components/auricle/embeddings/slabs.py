"""Which kind of slab a process has, and how another process attaches to it.

The files that need PyTorch are imported when a slab is on a device only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.mapped import Mapped
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slab import Slab

if TYPE_CHECKING:
    from auricle.embeddings.device_memory import DeviceMemory


def new_slab(layout: SlabLayout, count: int, *, device: str | None, shared: bool) -> Slab:
    """Allocate a slab on `device`, a GPU, or in host memory if there is None.

    Other processes can attach to one that is `shared`.
    """
    if device is None:
        return (HostSlab.create_shared if shared else HostSlab.private)(layout, count)
    from auricle.embeddings.cuda import CudaMemory
    from auricle.embeddings.device_slab import DeviceSlab

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
    from auricle.embeddings.device_slab import DeviceSlab

    _, headers = DeviceSlab.sizes(layout, count)
    memory = _opened(exported["memory"], exported["payloads"])
    return DeviceSlab(layout, count, Mapped.attach(headers, name), memory)


def _opened(kind: str, handle: str) -> DeviceMemory:
    if kind == "cuda":
        from auricle.embeddings.cuda import CudaMemory

        return CudaMemory.open(handle)
    from auricle.embeddings.stand_in import StandInMemory

    return StandInMemory.open(handle)
