"""Waits inside one process for conditions without a notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    while not condition():  # noqa: ASYNC110  # no event reports it
        await asyncio.sleep(0)
