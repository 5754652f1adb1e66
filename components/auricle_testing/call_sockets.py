"""The sockets of a graph's local calls: removed, or reached through a proxy each.

A process listens before it is registered, so no caller reaches it before `Sockets` has found it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from auricle.core.aio import cancelled
from auricle.dynamo.network import CALL_SOCKETS
from auricle_testing.faulty_proxy import UnixProxy

_CHECK_SECONDS = 0.05
_BEHIND = ".behind"  # suffix of the processes' own sockets meanwhile


class Sockets:
    """The sockets below a discovery directory. Use it on one event loop."""

    def __init__(self, discovery: Path) -> None:
        self._directory = discovery / CALL_SOCKETS
        self._behind: dict[Path, UnixProxy] = {}  # by the socket's own name
        self._shown = False
        self._listening: set[Path] = set()
        self._looking = asyncio.Lock()
        self._open = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Remove the sockets until the block ends, so that calls take the request plane.

        Enter this before the first local call: a connection that is already open stays open.
        """
        await self._look()
        try:
            async with self._open:
                watching = asyncio.create_task(self._watch())
                try:
                    yield
                finally:
                    await cancelled([watching])
        finally:
            for path in self._behind:
                with contextlib.suppress(OSError):  # the process has ended
                    path.with_suffix(_BEHIND).rename(path)

    async def show(self) -> None:
        """Put a proxy before each socket, including later ones; new calls use the proxies."""
        self._shown = True
        await self._look()

    def proxy(self, instance: str) -> UnixProxy | None:
        """Return the proxy of an instance (hexadecimal); None if it has no socket."""
        named = f"{int(instance, 16):016x}"
        return next((proxy for path, proxy in self._behind.items() if path.name == named), None)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            with contextlib.suppress(OSError):  # the disk is full
                await self._look()

    async def _look(self) -> None:
        """Move new sockets aside, and start the proxies that do not listen yet."""
        async with self._looking:
            for path in self._directory.glob("*"):
                if not path.suffix and path not in self._behind:
                    behind = path.with_suffix(_BEHIND)
                    path.rename(behind)
                    self._behind[path] = UnixProxy(behind)
            for path in self._behind.keys() - self._listening if self._shown else ():
                await self._open.enter_async_context(self._behind[path].listening(path))
                self._listening.add(path)
