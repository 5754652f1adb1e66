"""The ceilings of the device: matrix products, copies, launches; others are shares of them."""

from __future__ import annotations

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.found import Found, Task
from benchmarks.gpu.parts import CEILINGS

_PRODUCTS, _COPIES, _LAUNCHES = 8, 4, 200  # in a row


@torch.inference_mode()
def measure(task: Task) -> Found:
    """Measure the device by itself, without any of auricle's code."""
    device, scale, found = Device(task.device), task.scale, Found()
    # Compute float32 in float32, not in TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, figure in CEILINGS.items():
        seconds = _product_seconds(device, scale.matrix, getattr(torch, dtype), scale.seconds / 2)
        found.put(figure, 2 * scale.matrix**3 / seconds / 1e12)
    source = torch.zeros(scale.copied_bytes, dtype=torch.uint8, device=device.torch)
    target = torch.empty_like(source)
    seconds = device.median_seconds(lambda: target.copy_(source), scale.seconds / 2, in_row=_COPIES)
    # Each byte is read and written.
    found.put("copy_tb_per_s", 2 * scale.copied_bytes / seconds / 1e12)
    one = torch.zeros(1, device=device.torch)
    seconds = device.median_seconds(lambda: one.add_(1), scale.seconds / 4, in_row=_LAUNCHES)
    found.put("launch_us", 1e6 * seconds)
    return found


def _product_seconds(device: Device, rows: int, dtype: torch.dtype, seconds: float) -> float:
    """Multiply random values: with zeros a GPU draws less power and is faster than with data."""
    left, right = (torch.randn(rows, rows, device=device.torch).to(dtype) for _ in range(2))
    product = torch.empty_like(left)
    return device.median_seconds(
        lambda: torch.matmul(left, right, out=product), seconds, in_row=_PRODUCTS
    )
