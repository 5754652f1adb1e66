"""Chooses the kind of engine, checks that it can do what is asked of it, and starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from auricle.config.devices import EngineName
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import SettingsError
from auricle.process.metrics import report_status
from auricle.workers.pd.device_turn import device_turn
from auricle.workers.pd.engine import Engine, EngineKind, TextEngineKind


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
        from auricle.workers.pd.transformers.start import TransformersKind

        return TransformersKind()
    from auricle.workers.pd.vllm.start import VllmKind

    return VllmKind()


def text_kind() -> TextEngineKind:
    """Return the kind of engine for text models. Neither starts it nor imports its libraries."""
    from auricle.workers.pd.vllm.text import VllmTextKind

    return VllmTextKind()


async def started_in_turn(name: str, processes: int, start: Callable[[], Engine]) -> Engine:
    """Start an engine, before or after those of other processes on its device.

    `start` blocks: it runs in a worker thread. Raises as it does.
    """
    report_status("waiting for its device")
    async with device_turn(processes):
        report_status(f"starting {name}")
        return await asyncio.to_thread(start)
