"""A connector to the launcher, which runs workers as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

import httpx

from auricle.errors import SettingsError, WorkerUnavailable
from auricle.load.pools import POOLS, SizedPool
from auricle.load.reports import PoolKind

# The launcher sets this variable in the processes it starts (launcher/control.py).
_SOCKET_VARIABLE = "AURICLE_LAUNCHER"
_SECONDS = 5.0


class LocalConnector:
    """Calls the launcher that started this process, over its Unix socket."""

    acts: ClassVar[bool] = True

    def __init__(self, pools: Sequence[SizedPool]) -> None:
        """Raises SettingsError if no launcher started this process."""
        socket = os.environ.get(_SOCKET_VARIABLE)
        if not socket:
            raise SettingsError(
                "Planner.connector is 'local', but this process was not started by "
                "`auricle serve`; elsewhere use 'kubernetes' or 'dry-run'"
            )
        self._pools = pools
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket),
            base_url="http://launcher",
            timeout=_SECONDS,
        )

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return the launcher's count of each pool. Raises WorkerUnavailable."""
        counts = await self._ask("GET", "/components")
        return {
            pool.kind: int(counts[pool.component]["replicas"])
            for pool in self._pools
            if pool.component in counts or not pool.asked
        }

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Have the launcher start or drain processes.

        Raises WorkerUnavailable on an error, such as a number out of bounds, or after 5 s.
        """
        path = f"/components/{POOLS[pool].component}/replicas"
        await self._ask("PUT", path, {"replicas": replicas})

    async def close(self) -> None:
        """Close the connection to the launcher."""
        await self._client.aclose()

    async def _ask(
        self, method: str, path: str, body: dict[str, int] | None = None
    ) -> dict[str, dict[str, int]]:
        try:
            answer = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise WorkerUnavailable(f"the launcher: {error}") from None
        if answer.is_error:
            # The launcher's message, such as the bound that was exceeded.
            raise WorkerUnavailable(f"the launcher ({answer.status_code}): {answer.text}")
        found: dict[str, dict[str, int]] = answer.json()
        return found
