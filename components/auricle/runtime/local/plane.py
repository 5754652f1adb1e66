"""This process's part in the calls of its machine: its own socket, and connections to others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from auricle.runtime.local.connection import LocalCalls, socket_path
from auricle.runtime.local.server import Handler, LocalServer

log = logging.getLogger(__name__)


class LocalPlane:
    """Serves and calls processes of this machine; does nothing without a directory for sockets.

    `calls` is None then.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.calls = None if directory is None else LocalCalls(directory)
        self._server: LocalServer | None = None

    async def serve(self, instance: int, handlers: Mapping[str, Handler]) -> None:
        """Serve these endpoints of this process, which is `instance` in discovery."""
        if self._directory is None or not handlers:
            return
        server = LocalServer(socket_path(self._directory, instance), handlers)
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
