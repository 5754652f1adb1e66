"""Chooses the kind of engine, and checks that it can do what the settings ask of it."""

from __future__ import annotations

from auricle.errors import SettingsError
from auricle.pd_worker.engine import EngineKind
from auricle.settings import PdWorkerSettings


def checked_kind(settings: PdWorkerSettings) -> EngineKind:
    """Return the kind of engine that is started. Blocks for seconds: call it in a worker thread.

    Raises SettingsError if the settings ask for what it does not have, or it has no device.
    """
    kind = _kind()
    if settings.placement == "kv" and not kind.capabilities(settings).kv_events:
        raise SettingsError(
            f"Common.placement is kv, which needs KV events, but {kind.name} publishes none: set "
            "placement to load"
        )
    kind.check_device(settings)
    return kind


def _kind() -> EngineKind:
    # Imported when it is wanted: a process with another engine needs nothing of this one.
    from auricle.pd_worker.vllm.start import VllmKind

    return VllmKind()
