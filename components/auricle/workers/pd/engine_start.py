"""Selects an engine, checks its capabilities, starts it on its device, and watches it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from auricle.config.devices import EngineName
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import ProcessFailed, SettingsError
from auricle.process.metrics import report_status
from auricle.workers.pd.engine import Engine, EngineKind

if TYPE_CHECKING:
    from auricle.workers.pd.vllm.start import VllmTextKind

_POLL_SECONDS = 0.2
# The launcher's limit for a process to become ready.
_DEADLINE_SECONDS = 300.0
# An engine detects its death at once; checking is cheap.
_HEALTH_SECONDS = 0.2


def checked_kind(settings: PdWorkerSettings) -> EngineKind:
    """Return the configured kind of engine. Blocks for seconds: call it in a worker thread.

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
    # Imported late, as the other's libraries may be missing.
    if engine == "transformers":
        from auricle.workers.pd.transformers.start import TransformersKind

        return TransformersKind()
    from auricle.workers.pd.vllm.start import VllmKind

    return VllmKind()


def text_kind() -> VllmTextKind:
    """Return the kind of engine for text models. Neither starts it nor imports its libraries."""
    from auricle.workers.pd.vllm.start import VllmTextKind

    return VllmTextKind()


async def started_in_turn(name: str, processes: int, start: Callable[[], Engine]) -> Engine:
    """Start an engine while no other process loads on its device.

    `start` blocks, and runs in a worker thread. Raises whatever it raises.
    """
    report_status("waiting for its device")
    async with device_turn(processes):
        report_status(f"starting {name}")
        return await asyncio.to_thread(start)


@asynccontextmanager
async def device_turn(
    processes: int, directory: Path | None = None, deadline_seconds: float = _DEADLINE_SECONDS
) -> AsyncIterator[None]:
    """Hold the lock for loading on this process's device, which `processes` share.

    vLLM measures its memory on a GPU by the free memory before and after loading. Another process
    that loads meanwhile would be counted, or make it fail.

    The lock ends with its process. `directory` is common to all of them, by default the directory
    for temporary files, which the launcher creates. Raises ProcessFailed if others hold the lock
    for `deadline_seconds`.
    """
    if processes == 1:
        yield
        return
    name = os.environ.get("CUDA_VISIBLE_DEVICES") or "all"
    path = (directory or Path(tempfile.gettempdir())) / f"auricle-{os.getuid()}-loads-{name}"
    with path.open("w") as file:
        deadline = time.monotonic() + deadline_seconds
        while not _taken(file):
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"other processes have been loading on its device for {deadline_seconds:g} s"
                )
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            # Explicit, because vLLM's process has inherited the file.
            fcntl.flock(file, fcntl.LOCK_UN)


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def watch(engine: Engine) -> None:
    """Raise ProcessFailed when the engine has died, which ends this process."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEALTH_SECONDS):
                await engine.dead.wait()
                raise ProcessFailed("its engine has ended")
        await engine.check_health()
