"""Ends a process whose engine has died."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from auricle.errors import ProcessFailed
from auricle.pd_worker.engine import Engine

# An engine notes at once that it has died; looking costs nothing.
_HEALTH_SECONDS = 0.2


async def watch(engine: Engine) -> None:
    """Raise, and so end this process, when the engine has died."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEALTH_SECONDS):
                await engine.dead.wait()
                raise ProcessFailed("its engine has ended")
        await engine.check_health()
