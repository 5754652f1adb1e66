"""Selects an engine, checks its capabilities, starts it on its device, and watches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from auricle.config.devices import EngineName, TextEngineName
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import ProcessFailed, SettingsError
from auricle.process.device_turn import device_turn
from auricle.process.metrics import report_status
from auricle.workers.pd.engine import Engine, EngineKind, TextEngineKind

# An engine detects its death at once; checking is cheap.
_HEALTH_SECONDS = 0.2


def checked_kind(settings: PdWorkerSettings) -> EngineKind:
    """Return the configured kind of engine. Blocks for seconds.

    Raises SettingsError if it lacks a required capability or its device.
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
    # Imported late, as the others' libraries may be missing.
    if engine == "transformers":
        from auricle.workers.pd.transformers.start import TransformersKind

        return TransformersKind()
    if engine == "sglang":
        from auricle.workers.pd.sglang.start import SglangKind

        return SglangKind()
    if engine == "ctranslate2":
        from auricle.workers.pd.ctranslate2.start import CTranslate2Kind

        return CTranslate2Kind()
    from auricle.workers.pd.vllm.start import VllmKind

    return VllmKind()


def text_kind(engine: TextEngineName) -> TextEngineKind:
    """Return the kind of engine for text models. Neither starts it nor imports its libraries."""
    if engine == "sglang":
        from auricle.workers.pd.sglang.start import SglangTextKind

        return SglangTextKind()
    from auricle.workers.pd.vllm.start import VllmTextKind

    return VllmTextKind()


async def started_in_turn(name: str, gpu: str | None, start: Callable[[], Engine]) -> Engine:
    """Start an engine while no other process loads on its `gpu`; None: on a CPU.

    `start` blocks, and runs in a worker thread. Raises whatever it raises.
    """
    async with device_turn(gpu):
        report_status(f"starting {name}")
        return await asyncio.to_thread(start)


async def watch(engine: Engine) -> None:
    """Raise ProcessFailed when the engine has died, which ends this process."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEALTH_SECONDS):
                await engine.dead.wait()
                raise ProcessFailed("its engine has ended")
        await engine.check_health()
