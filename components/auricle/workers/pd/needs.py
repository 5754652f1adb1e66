"""The needs of a PD worker, for `auricle component PdWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from auricle.config.settings import PdWorkerSettings
from auricle.process.needs import Need, checkpoint, imports_of
from auricle.workers.pd.engine_start import engine_kind


def needs(settings: PdWorkerSettings) -> Sequence[Need]:
    """Sets variables that engines read."""
    kind = engine_kind(settings.engine)
    return [
        Need("device", partial(kind.built_for, settings)),
        imports_of("workers.pd", "nixl._api", *kind.libraries()),
        checkpoint(settings.model),
    ]
