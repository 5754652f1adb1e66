"""The needs of a translate worker, for `auricle component TranslateWorker --check`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from auricle.checkpoints.text_model import open_text_model
from auricle.config.settings import TranslateWorkerSettings
from auricle.process.needs import Need, imports_of
from auricle.workers.pd.engine_start import text_kind


def needs(settings: TranslateWorkerSettings) -> Sequence[Need]:
    """Sets variables that the engine reads."""
    kind = text_kind(settings.engine)
    return [
        Need("device", partial(kind.built_for, settings)),
        imports_of("workers.translate", *kind.libraries()),
        Need("checkpoint", partial(_read, settings)),
    ]


def _read(settings: TranslateWorkerSettings) -> str:
    from auricle.workers.translate.prompt import TranslatorPrompt  # imports transformers

    path = settings.checkpoint
    found = open_text_model(path)
    TranslatorPrompt(found)
    into = ", ".join(settings.translate_targets or found.targets) or "any language"
    return f"{path}, into {into}, fingerprint {found.fingerprint}"
