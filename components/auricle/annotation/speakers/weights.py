"""The file of a speaker model's weights: safetensors, matrices and kernels as int8 per row.

`python -m auricle.annotation.speakers.weights FROM.pt TO.safetensors` converts a published CAM++ (a
torch state dict). Each row of a convolution has the scale of its largest weight; all other weights
stay in float32.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from auricle.core.errors import CheckpointError

FILE = "speakers.safetensors"
_SCALE = ".scale"
_LEVELS = 127


def read_weights(directory: Path) -> tuple[str, dict[str, Tensor]]:
    """Return the fingerprint of a directory's weights, and the weights as float32.

    Raises CheckpointError if they are missing or unreadable.
    """
    path = directory / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"no speaker model at {path}: {error.strerror}; Common.speaker_model names a directory "
            f"with {FILE}, such as models/speakers"
        ) from None
    try:
        packed = load(data)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from None
    return hashlib.sha256(data).hexdigest()[:16], unpacked(packed)


def packed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the file for float weights."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if not tensor.is_floating_point():
            continue  # training counters
        if tensor.dim() < 2:
            found[name] = tensor.float().contiguous()
            continue
        rows = tensor.float().flatten(1)
        scale = rows.abs().amax(1).clamp_min(1e-12) / _LEVELS
        whole = (rows / scale.unsqueeze(1)).round().to(torch.int8)
        found[name], found[name + _SCALE] = whole.view(tensor.shape).contiguous(), scale
    return found


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inverse of `packed`."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_SCALE):
            continue
        scale = tensors.get(name + _SCALE)
        weight = tensor.float()
        if scale is not None:
            weight = weight * scale.view(-1, *[1] * (weight.dim() - 1))
        found[name] = weight
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("published", type=Path, help="a state dict, as torch saved it")
    parser.add_argument("out", type=Path, help="the file to write")
    args = parser.parse_args()
    weights = torch.load(args.published, map_location="cpu", weights_only=True)
    save_file(packed(weights), args.out)


if __name__ == "__main__":
    _main()
