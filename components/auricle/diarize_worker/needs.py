"""What a diarize worker needs before it can serve: `auricle component DiarizeWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from auricle.process.needs import LIBRARIES, Need, imports, torch_device
from auricle.settings import DiarizeWorkerSettings
from auricle.speakers.weights import read_weights


def needs(settings: DiarizeWorkerSettings) -> Sequence[Need]:
    """Return the needs of a diarize worker with these settings."""
    on_gpu = settings.device.startswith("cuda")
    late = [*LIBRARIES, *(["pynvml"] if on_gpu else [])]
    directory = settings.checkpoint
    found = [
        imports("auricle.diarize_worker.main", *late),
        Need("speaker model", lambda: _read(directory)),
    ]
    return [*found, torch_device("DiarizeWorker", settings.device)] if on_gpu else found


def _read(directory: Path) -> str:
    fingerprint, weights = read_weights(directory)
    return f"{directory}, {len(weights)} tensors, fingerprint {fingerprint}"
