"""Real processes of this machine, through the launcher."""

from __future__ import annotations

import os
from collections.abc import Mapping

import httpx

from auricle.errors import SettingsError, WorkerUnavailable
from auricle.load_reports import WorkerKind
from auricle.planner.connectors.base import COMPONENTS

# As the launcher names it for the processes it starts (launcher/control.py).
_SOCKET_VARIABLE = "AURICLE_LAUNCHER"
_SECONDS = 5.0


class LocalConnector:
    """Calls the launcher that started this process."""

    def __init__(self) -> None:
        """Raises SettingsError where no launcher did."""
        socket = os.environ.get(_SOCKET_VARIABLE)
        if not socket:
            raise SettingsError(
                "Planner.connector is 'local', but this process was not started by "
                "`auricle serve`; elsewhere use 'kubernetes' or 'dry-run'"
            )
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket),
            base_url="http://launcher",
            timeout=_SECONDS,
        )

    async def replicas(self) -> Mapping[WorkerKind, int]:
        """As the launcher counts them. Raises WorkerUnavailable."""
        counts = await self._ask("GET", "/components")
        return {kind: int(counts[name]["replicas"]) for kind, name in COMPONENTS.items()}

    async def scale(self, pool: WorkerKind, replicas: int) -> None:
        """The launcher starts or drains processes. Raises WorkerUnavailable."""
        path = f"/components/{COMPONENTS[pool]}/replicas"
        await self._ask("PUT", path, {"replicas": replicas})

    async def close(self) -> None:
        """No more calls."""
        await self._client.aclose()

    async def _ask(
        self, method: str, path: str, body: dict[str, int] | None = None
    ) -> dict[str, dict[str, int]]:
        try:
            answer = await self._client.request(method, path, json=body)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise WorkerUnavailable(f"the launcher: {error}") from None
        found: dict[str, dict[str, int]] = answer.json()
        return found
