"""The needs of an align worker, for `auricle component AlignWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.config.settings import AlignWorkerSettings
from auricle.process.needs import Need, checkpoint, needs_of_torch


def needs(settings: AlignWorkerSettings) -> Sequence[Need]:
    model = checkpoint(settings.checkpoint)
    return needs_of_torch("workers.align", "AlignWorker", settings.device, model, "nixl._api")
