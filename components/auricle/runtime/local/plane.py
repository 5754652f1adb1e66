"""This process's part in the calls of its machine: its own socket, and connections to others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from auricle.runtime.local.connection import LocalCalls, socket_path
from auricle.runtime.local.server import Handler, LocalServer


class LocalPlane:
    """Serves and calls processes of this machine; does nothing without a directory for sockets.

    `calls` is None then.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.calls = None if directory is None else LocalCalls(directory)
        self._server: LocalServer | None = None

    async def serve(self, instance: int, handlers: Mapping[str, Handler]) -> None:
        """Serve these endpoints of this process, which is `instance` in discovery.

        Raises OSError if the socket cannot be made.
        """
        if self._directory is not None and handlers:
            self._server = LocalServer(socket_path(self._directory, instance), handlers)
            await self._server.start()

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
