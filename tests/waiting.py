"""Waiting inside one process, where nothing reports what a test waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    while not condition():  # noqa: ASYNC110  # nothing tells when it does
        await asyncio.sleep(0)
