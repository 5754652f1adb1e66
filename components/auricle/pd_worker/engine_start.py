"""Chooses the kind of engine, and checks that it can do what the settings ask of it."""

from __future__ import annotations

from auricle.device_settings import EngineName
from auricle.errors import SettingsError
from auricle.pd_worker.engine import EngineKind, TextEngineKind
from auricle.settings import PdWorkerSettings


def checked_kind(settings: PdWorkerSettings) -> EngineKind:
    """Return the kind of engine that is set. Blocks for seconds: call it in a worker thread.

    Raises SettingsError if the settings ask for what it does not have, or it has no device.
    """
    kind = engine_kind(settings.engine)
    if settings.placement == "kv" and not kind.capabilities(settings).kv_events:
        raise SettingsError(
            f"Common.placement is kv, which needs KV events, but {kind.name} publishes none: set "
            "placement to load"
        )
    kind.check_device(settings)
    return kind


def engine_kind(engine: EngineName) -> EngineKind:
    """Return the kind of that name. Neither starts it nor imports its libraries."""
    # Each is imported when it is wanted: the other's libraries need not be installed.
    if engine == "transformers":
        from auricle.pd_worker.transformers.start import TransformersKind

        return TransformersKind()
    from auricle.pd_worker.vllm.start import VllmKind

    return VllmKind()


def text_kind() -> TextEngineKind:
    """Return the kind of engine for text models. Neither starts it nor imports its libraries."""
    from auricle.pd_worker.vllm.text import VllmTextKind

    return VllmTextKind()
