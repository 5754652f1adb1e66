"""Allocates a process's slab in host or GPU memory, and attaches to another process's slab."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import Any

import torch

from auricle.checkpoints.geometry import Geometry
from auricle.config.devices import SlabChoice
from auricle.core.errors import SettingsError
from auricle.embeddings.cuda import CudaMemory
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.memory import DeviceMemory, DeviceSlab, HostSlab, Mapped
from auricle.embeddings.nixl import cuda_majors
from auricle.embeddings.reads import Region
from auricle.embeddings.slab import Slab
from auricle.process.transport import allows_cuda_memory

log = logging.getLogger(__name__)


def slab_layout(geometry: Geometry, dtype: str) -> SlabLayout:
    """Return the layout of a slab for a checkpoint's windows."""
    return SlabLayout(geometry.hidden_size, ITEM_BYTES[dtype], geometry.window_embeddings)


def slab_device(choice: SlabChoice, device: str | None, component: str) -> str | None:
    """Return the GPU of a worker's slab, None for host memory; `device` is the worker's GPU.

    Raises SettingsError if `choice` is device and the slab cannot be there.
    """
    if choice == "host" or (choice == "auto" and device is None):
        return None
    allowed = os.environ.get("UCX_TLS", "")
    why_not = why_not_on(device, allowed, cuda_majors(), torch.version.cuda)
    if why_not is None:
        return device
    if choice == "device":
        raise SettingsError(
            f"{component}: slab is device, but {why_not}, or set slab to auto or host"
        )
    log.warning("Embeddings are kept in host memory instead of on the GPU: %s", why_not)
    return None


def why_not_on(
    device: str | None, allowed: str, nixl_cuda: Collection[int], torch_cuda: str | None
) -> str | None:
    """Return why a slab cannot be on `device`, and what to change; None if it can.

    `allowed` is UCX_TLS. NIXL is built for the major versions `nixl_cuda` of CUDA, PyTorch
    for `torch_cuda`. UCX without CUDA support treats GPU memory as host memory and crashes.
    """
    if device is None:
        return "it has no GPU: install requirements/gpu.txt"
    if torch_cuda is None:
        return "the installed PyTorch is built without CUDA: install requirements/gpu.txt"
    if (major := int(torch_cuda.partition(".")[0])) not in nixl_cuda:
        built = " and ".join(map(str, nixl_cuda)) or "none"
        return (
            f"PyTorch is built for CUDA {torch_cuda}, and the installed NIXL for {built}: "
            f"install nixl-cu{major}"
        )
    if not allows_cuda_memory(allowed):
        return f"UCX_TLS is {allowed!r}, which leaves out memory of GPUs: add cuda"
    return None


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
