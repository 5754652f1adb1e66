"""Whether the discovery backend is there."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from auricle.settings import CommonSettings

_ETCD_PORT = 2379
_CONNECT_SECONDS = 2.0


async def discovery_state(settings: CommonSettings) -> str:
    """Return `up`, `down`, or `unknown` where it cannot be told. Raises nothing.

    The directory of `file` must exist; one of etcd's endpoints must take connections.
    """
    if settings.discovery == "file":
        there = await asyncio.to_thread(settings.discovery_path.is_dir)
        return "up" if there else "down"
    if settings.discovery == "etcd" and settings.etcd_endpoints:
        endpoints = settings.etcd_endpoints.split(",")
        taken = await asyncio.gather(*(_takes_connections(one.strip()) for one in endpoints))
        return "up" if any(taken) else "down"
    return "unknown"


async def _takes_connections(endpoint: str) -> bool:
    try:
        url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(url.hostname, url.port or _ETCD_PORT)
    except (OSError, ValueError, TimeoutError):
        return False
    writer.close()
    return True
