"""What an align worker needs before it can serve: `auricle component AlignWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.process.needs import Need, checkpoint, needs_of_torch
from auricle.settings import AlignWorkerSettings


def needs(settings: AlignWorkerSettings) -> Sequence[Need]:
    """Return the needs of an align worker with these settings."""
    model = checkpoint(settings.checkpoint)
    return needs_of_torch("align_worker", "AlignWorker", settings.device, model, "nixl._api")
