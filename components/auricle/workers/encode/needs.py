"""The needs of an encode worker, for `auricle component EncodeWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.config.settings import EncodeWorkerSettings
from auricle.process.needs import Need, checkpoint, needs_of_torch


def needs(settings: EncodeWorkerSettings) -> Sequence[Need]:
    return needs_of_torch(
        "workers.encode",
        settings.component,
        settings.device,
        checkpoint(settings.checkpoint),
        "nixl._api",
        on_gpu=("torch.nn.attention.varlen", "pynvml"),
    )
