"""A worker's slab: its layout, and whether NIXL and UCX can transfer it from a GPU."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from typing import TypeVar

import torch

from auricle.checkpoints.geometry import Geometry
from auricle.config.devices import SlabChoice
from auricle.core.errors import RegistrationFailed, SettingsError
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout
from auricle.embeddings.nixl import cuda_majors
from auricle.process.transport import allows_cuda_memory

log = logging.getLogger(__name__)
Started = TypeVar("Started")


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
    _warn_of_host_memory(why_not)
    return None


def start_on_device(
    choice: SlabChoice, device: str | None, component: str, start: Callable[[str | None], Started]
) -> Started:
    """Return what `start` makes with a slab on a worker's GPU, or in host memory (None). Blocks.

    `choice` and `device` are as for `slab_device`. With `auto`, host memory is used if NIXL does
    not register memory of the GPU. Raises SettingsError if `choice` is device and the slab cannot
    be there, and whatever `start` raises.
    """
    place = slab_device(choice, device, component)
    try:
        return start(place)
    except RegistrationFailed as error:
        if place is None:
            raise
        if choice == "device":
            raise SettingsError(
                f"{component}: slab is device, but {error}; set slab to auto or host"
            ) from error
        _warn_of_host_memory(str(error))
    return start(None)


def _warn_of_host_memory(why: str) -> None:
    log.warning("Embeddings are kept in host memory instead of on the GPU: %s", why)


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
