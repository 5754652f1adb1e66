"""The launcher's control API, with which a planner scales components: HTTP on a Unix socket.

GET /components                          {"PdWorker": {"replicas": 2, "ready": 1}, …}
PUT /components/PdWorker/replicas  {"replicas": 3}
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from auricle.config.common import MAX_REPLICAS
from auricle.core.errors import BadRequest
from auricle.launcher.supervisor import Supervisor
from auricle.process.http_server import EmbeddedServer

# The environment variable with the socket's path, set for every supervised component.
SOCKET_VARIABLE = "AURICLE_LAUNCHER"


class ControlServer:
    """Serves the control API of `supervisor` at the Unix socket `path`."""

    def __init__(self, supervisor: Supervisor, path: Path) -> None:
        self._supervisor = supervisor
        routes = [
            Route("/components", self._counts),
            Route("/components/{name}/replicas", self._scale, methods=["PUT"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            log_level="warning",
            lifespan="off",
        )
        self._server = EmbeddedServer(config)
        self._path = path

    @property
    def accepting(self) -> asyncio.Event:
        """An event that is set once the server accepts connections."""
        return self._server.accepting

    async def run(self) -> None:
        """Serve until `close`; the owner then awaits the end of this."""
        # uvicorn would let every user of the machine connect to a socket that it makes.
        with _listening(self._path) as listener:
            await self._server.serve(sockets=[listener])

    def close(self) -> None:
        """Ask `run` to return."""
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
            replicas = _bounded(body["replicas"])
        except (
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
            BadRequest,
            ClientDisconnect,
        ) as error:
            return _refused(400, f'the body must be {{"replicas": number}}: {error}')
        self._supervisor.scale(name, replicas)
        return JSONResponse(self._supervisor.counts()[name])


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Make a Unix socket at `path` to which only this user may connect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # Its mode is set before it listens, so no other user can connect.
        listener.bind(str(path))
        path.chmod(0o600)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _bounded(replicas: object) -> int:
    # In Python, `True` is an int.
    number = replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else -1
    if not 0 <= number <= MAX_REPLICAS:
        raise BadRequest(f"replicas is {replicas!r}; a number from 0 to {MAX_REPLICAS}")
    return number


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
