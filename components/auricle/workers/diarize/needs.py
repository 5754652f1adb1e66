"""The needs of a diarize worker, for `auricle component DiarizeWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from auricle.annotation.speakers.weights import read_weights
from auricle.config.settings import DiarizeWorkerSettings
from auricle.process.needs import Need, needs_of_torch


def needs(settings: DiarizeWorkerSettings) -> Sequence[Need]:
    model = Need("speaker model", partial(_read, settings.checkpoint))
    return needs_of_torch("workers.diarize", "DiarizeWorker", settings.device, model)


def _read(directory: Path) -> str:
    fingerprint, weights = read_weights(directory)
    return f"{directory}, {len(weights)} tensors, fingerprint {fingerprint}"
