"""Linear layers with 8-bit weights and products, on a CPU."""

from __future__ import annotations

import torch
from torch import nn

# oneDNN adds two products in 16 bits on a CPU without VNNI, so that inputs may have 7 bits there
# (https://uxlfoundation.github.io/oneDNN/dev_guide_int8_computations.html).
_VNNI = ("avx512_vnni", "avx_vnni")
_NO_ZERO = 1e-12


class Int8Linear(nn.Module):
    """A linear layer of (rows, inputs), float32, with a scale for each row and for each output.

    So a row does not depend on the others. PyTorch's dynamic quantization has one scale for all
    rows, and three times the error with Whisper's weights.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        self._scales = weight.abs().amax(1).clamp_min(_NO_ZERO) / 127
        rounded = (weight / self._scales[:, None]).round().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        self._bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()
        capable = torch.cpu.get_capabilities()
        self._levels = 127 if any(capable.get(name) for name in _VNNI) else 63
        self._zero = self._levels + 1  # inputs are unsigned

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return (rows, outputs), float32."""
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
        largest.clamp_min_(_NO_ZERO)
        # The conversion truncates, so adding a half rounds.
        inputs = (rows * (self._levels / largest)).add_(self._zero + 0.5).to(torch.uint8)
        products: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            inputs, 1 / self._levels, self._zero, self._weight, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return products.mul_(largest).add_(self._bias)


def quantise(module: nn.Module) -> None:
    """Replace all linear layers below `module` by those with 8 bits."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child)
