"""How the processes that compute with torch set it up, and load the modules of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from auricle.errors import CheckpointError

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class DeviceModel:
    """Modules on a device. Not thread-safe: call them from one worker thread.

    Sets torch's number of CPU threads for the process, and has it compute exactly in float32.
    """

    def __init__(self, dtype: str, device: str, threads: int) -> None:
        self._dtype, self._device = DTYPES[dtype], torch.device(device)
        torch.set_num_threads(threads)
        if self._dtype is torch.float32:
            # By default cuDNN's convolutions round float32 to 10 bits of mantissa on a GPU.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

    @property
    def on_gpu(self) -> bool:
        """Whether passes run on a GPU."""
        return self._device.type == "cuda"

    def _load(self, module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
        """Load weights into a module, and make it ready to compute on the device.

        Raises CheckpointError if they are not all of it, and no more.
        """
        _load(module, weights, what)
        module.to(self._device, self._dtype).eval()


def config_of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return of `values` those that a config of transformers has."""
    known = kind().to_dict().keys() - {"architectures", "model_type"}
    return {key: value for key, value in values.items() if key in known}


def _load(module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
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
