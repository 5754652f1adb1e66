"""What an encode worker needs before it can serve: `auricle component EncodeWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.process.needs import LIBRARIES, Need, checkpoint, imports, torch_device
from auricle.settings import EncodeWorkerSettings

_ON_A_GPU = ("torch.nn.attention.varlen", "pynvml")


def needs(settings: EncodeWorkerSettings) -> Sequence[Need]:
    """Return the needs of an encode worker with these settings, of either pool."""
    late = [*LIBRARIES, "nixl._api"]
    if on_gpu := settings.device.startswith("cuda"):
        late += _ON_A_GPU
    found = [imports("auricle.encode_worker.main", *late), checkpoint(settings.checkpoint)]
    return [*found, torch_device(settings.component, settings.device)] if on_gpu else found
