"""What an encode worker needs before it can serve: `auricle component EncodeWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from auricle.errors import SettingsError
from auricle.process.needs import LIBRARIES, Need, checkpoint, imports
from auricle.settings import EncodeWorkerSettings

_ON_A_GPU = ("torch.nn.attention.varlen", "pynvml")


def needs(settings: EncodeWorkerSettings) -> Sequence[Need]:
    """Return the needs of an encode worker with these settings."""
    late = [*LIBRARIES, "nixl._api"]
    if on_gpu := settings.device.startswith("cuda"):
        late += _ON_A_GPU
    found = [imports("auricle.encode_worker.main", *late), checkpoint(settings.model)]
    return [*found, Need("device", partial(_built_for, settings.device))] if on_gpu else found


def _built_for(device: str) -> str:
    """Return what the environment is built for. Whether there is a GPU is not asked."""
    import torch

    if torch.version.cuda is None:
        raise SettingsError(
            f"EncodeWorker.device is {device}, but the installed PyTorch is built without CUDA; "
            "install requirements/gpu.txt"
        )
    return f"{device}, which was not looked for; PyTorch is built for CUDA {torch.version.cuda}"
