"""Runs a script of this folder in Node, which drives a headless Chromium."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


async def driven(
    script: str, *arguments: str | Path, seconds: float, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run the script and return its result; fails with its errors, or after `seconds`."""
    assert (_FOLDER / "node_modules").exists(), "run: make chromium-env"
    node = await asyncio.create_subprocess_exec(
        *("node", str(_FOLDER / script), *map(str, arguments)),
        env=os.environ | (environment or {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            told, trouble = await node.communicate()
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    assert node.returncode == 0, trouble.decode()
    result: dict[str, Any] = json.loads(told)
    return result
