"""Whether a worker can keep its embeddings on its GPU: NIXL and UCX must both know GPUs."""

from __future__ import annotations

import logging
import os

import torch

from auricle.embeddings.nixl import CUDA_MAJOR
from auricle.errors import SettingsError
from auricle.process.transport import allows_cuda_memory
from auricle.slab_settings import SlabChoice

log = logging.getLogger(__name__)


def slab_device(choice: SlabChoice, device: str | None, component: str) -> str | None:
    """Return the GPU of a worker's slab, None for host memory; `device` is the worker's, if any.

    Raises SettingsError if the `choice` is device and that cannot be.
    """
    if choice == "host" or (choice == "auto" and device is None):
        return None
    allowed = os.environ.get("UCX_TLS", "")
    why_not = why_not_on(device, allowed, CUDA_MAJOR, torch.version.cuda)
    if why_not is None:
        return device
    if choice == "device":
        raise SettingsError(
            f"{component}: slab is device, but {why_not}, or set slab to auto or host"
        )
    log.warning("embeddings are in host memory and not on the GPU: %s", why_not)
    return None


def why_not_on(
    device: str | None, allowed: str, nixl_cuda: int, torch_cuda: str | None
) -> str | None:
    """Return why a slab cannot be on `device`, and what would be right; None if it can.

    `allowed` is UCX_TLS. NIXL is built for the major version `nixl_cuda` of CUDA, PyTorch for
    `torch_cuda`. UCX without its parts for CUDA takes memory of a GPU for the host's, and crashes.
    """
    if device is None:
        return "it has no GPU: install requirements/gpu.txt"
    if torch_cuda is None or int(torch_cuda.partition(".")[0]) != nixl_cuda:
        return (
            f"the installed NIXL is built for CUDA {nixl_cuda} and PyTorch for "
            f"{torch_cuda or 'none'}: install NIXL's build for the same"
        )
    if not allows_cuda_memory(allowed):
        return f"UCX_TLS is {allowed!r}, which leaves out memory of GPUs: add cuda"
    return None
