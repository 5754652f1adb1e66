"""How a planner asks the launcher for more or fewer processes: HTTP on a Unix socket.

GET /components                          {"PdWorker": {"replicas": 2, "ready": 1}, …}
PUT /components/PdWorker/replicas  {"replicas": 3}
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from auricle.errors import BadRequest
from auricle.http_server import EmbeddedServer

# Where a supervised component finds it.
SOCKET_VARIABLE = "AURICLE_LAUNCHER"
MOST_REPLICAS = 64


class Scalable(Protocol):
    """What the launcher's supervisor can do for a planner."""

    def counts(self) -> dict[str, dict[str, int]]:
        """By component: replicas wanted, and those that are ready."""
        ...

    async def scale(self, component: str, replicas: int) -> None:
        """Start or drain processes; returns before they have started or gone."""
        ...


class ControlServer:
    """Serves `supervisor` at `socket` until closed."""

    def __init__(self, supervisor: Scalable, socket: Path) -> None:
        self._supervisor = supervisor
        routes = [
            Route("/components", self._counts),
            Route("/components/{name}/replicas", self._scale, methods=["PUT"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), uds=str(socket), log_level="warning", lifespan="off"
        )
        self._server = EmbeddedServer(config)

    async def run(self) -> None:
        """The server; its owner calls `close` and awaits this."""
        await self._server.serve()

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True

    async def _counts(self, _request: Request) -> Response:
        return JSONResponse(self._supervisor.counts())

    async def _scale(self, request: Request) -> Response:
        name = request.path_params["name"]
        known = self._supervisor.counts()
        if name not in known:
            return _refused(404, f"unknown component {name!r}; known: {', '.join(known)}")
        try:
            body = await asyncio.wait_for(request.json(), 5.0)
            replicas = body["replicas"]
            if not isinstance(replicas, int) or not 0 <= replicas <= MOST_REPLICAS:
                raise BadRequest(f"replicas is {replicas!r}; a number from 0 to {MOST_REPLICAS}")
        except (ValueError, KeyError, TypeError, BadRequest) as error:
            return _refused(400, f'the body must be {{"replicas": number}}: {error}')
        await self._supervisor.scale(name, replicas)
        return JSONResponse(self._supervisor.counts()[name])


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
