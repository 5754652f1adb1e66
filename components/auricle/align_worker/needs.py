"""What an align worker needs before it can serve: `auricle component AlignWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.process.needs import LIBRARIES, Need, checkpoint, imports, torch_device
from auricle.settings import AlignWorkerSettings


def needs(settings: AlignWorkerSettings) -> Sequence[Need]:
    """Return the needs of an align worker with these settings."""
    late = [*LIBRARIES, "nixl._api"]
    if on_gpu := settings.device.startswith("cuda"):
        late.append("pynvml")
    found = [imports("auricle.align_worker.main", *late), checkpoint(settings.checkpoint)]
    return [*found, torch_device("AlignWorker", settings.device)] if on_gpu else found
