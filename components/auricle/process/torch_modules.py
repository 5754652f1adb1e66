"""How the processes that compute with torch set it up, and load the modules of transformers."""

from __future__ import annotations

from typing import Any

import torch

from auricle.errors import CheckpointError

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def set_up_torch(dtype: torch.dtype, threads: int) -> None:
    """Let torch compute on so many threads of this process, and in float32 exactly."""
    torch.set_num_threads(threads)
    if dtype is torch.float32:
        # By default cuDNN's convolutions round float32 to 10 bits of mantissa on a GPU.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def load(module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
    """Load weights into a module. Raises CheckpointError if they are not all of it, and no more."""
    try:
        missing, unexpected = module.load_state_dict(weights, strict=False)
    except RuntimeError:  # it names every tensor of another shape, in a hundred lines
        raise CheckpointError(
            f"the weights of the {what} have other shapes than its config"
        ) from None
    if missing or unexpected:
        raise CheckpointError(
            f"the weights of the {what} do not fit its config: missing {sorted(missing)[:3]}, "
            f"unexpected {sorted(unexpected)[:3]}"
        )
