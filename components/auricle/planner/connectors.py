"""The interface between the planner and what runs the workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import httpx

from auricle.core.errors import SettingsError, WorkerUnavailable
from auricle.load.pools import POOLS, SizedPool
from auricle.load.reports import PoolKind


class Connector(Protocol):
    """Reads and sets the replicas of the pools. Each call has a deadline of its own.

    `acts`: whether `scale` has an effect.
    """

    acts: ClassVar[bool]

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return each pool's replicas: starting ones count, draining ones do not.

        An optional pool that is not deployed is left out. Raises WorkerUnavailable.
        """
        ...

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Request this number of replicas, without waiting until they have started or drained.

        Raises WorkerUnavailable.
        """
        ...

    async def close(self) -> None:
        """Release connections; no call may follow."""
        ...


# A connector that scales nothing: decisions are in the log and the metrics only.


class DryRunConnector:
    """Reports the observed replicas and ignores all decisions."""

    acts: ClassVar[bool] = False

    def __init__(self, pools: Sequence[SizedPool], ready: Callable[[PoolKind], int]) -> None:
        """`ready` returns the number of a pool's workers that report."""
        self._pools = pools
        self._ready = ready

    async def replicas(self) -> Mapping[PoolKind, int]:
        """Return the number of workers that report, by pool."""
        return {pool.kind: self._ready(pool.kind) for pool in self._pools}

    async def scale(self, pool: PoolKind, replicas: int) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


# A connector to the launcher, which runs workers as processes of this machine.

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
            if pool.component in counts or not pool.annotation
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
