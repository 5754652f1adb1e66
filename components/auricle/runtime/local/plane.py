"""This process's part in the calls of its machine: its own socket, and connections to others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry

from auricle.runtime.local.connection import LocalCalls
from auricle.runtime.local.metrics import LocalMetrics
from auricle.runtime.local.server import LocalServer
from auricle.runtime.local.serving import Handler
from auricle.runtime.local.sockets import socket_path
from auricle.tasks import TaskOwner

log = logging.getLogger(__name__)


class LocalPlane:
    """Serves and calls processes of this machine; does nothing without a directory for sockets.

    `calls` is None then.
    """

    def __init__(self, directory: Path | None, registry: CollectorRegistry) -> None:
        self._directory = directory
        self._metrics = LocalMetrics(registry)
        self.calls = None if directory is None else LocalCalls(directory)
        self._server: LocalServer | None = None

    async def serve(self, instance: int, handlers: Mapping[str, Handler], tasks: TaskOwner) -> None:
        """Serve these endpoints of this process, which is `instance` in discovery.

        `tasks` hears if it accepts no more connections.
        """
        if self._directory is None or not handlers:
            return
        path = socket_path(self._directory, instance)
        server = LocalServer(path, handlers, self._metrics, tasks)
        try:
            await server.start()
        except OSError as error:
            log.warning("no socket for calls on this machine, they take longer: %s", error)
        else:
            self._server = server

    async def leave(self) -> None:
        """Refuse new calls; return when none is under way here."""
        if self._server is not None:
            await self._server.leave()

    async def close(self) -> None:
        """End all connections, and what is still under way."""
        if self._server is not None:
            await self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """End the connections to other processes."""
        if self.calls is not None:
            self.calls.close()
