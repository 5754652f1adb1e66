"""The sockets of a graph's local calls: taken away, or with a proxy before each.

A process listens before others hear of it, so that none is called before `Sockets` has seen it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from auricle.core.aio import cancelled
from auricle.dynamo.network import CALL_SOCKETS
from auricle_testing.faulty_proxy import UnixProxy

_LOOK_SECONDS = 0.05
_BEHIND = ".behind"  # what the processes' own sockets are called meanwhile


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
        """Take the sockets away until the block ends: calls take the request plane.

        Nobody may have called over them yet, or such a connection stays.
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
        """Have a proxy listen at each, also at those that come later: new calls take them."""
        self._shown = True
        await self._look()

    def proxy(self, instance: str) -> UnixProxy | None:
        """Return the proxy of an instance (hexadecimal); None if it has no socket."""
        named = f"{int(instance, 16):016x}"
        return next((proxy for path, proxy in self._behind.items() if path.name == named), None)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with contextlib.suppress(OSError):  # the disk is full
                await self._look()

    async def _look(self) -> None:
        """Take what has come, and listen where that is to be and is not."""
        async with self._looking:
            for path in self._directory.glob("*"):
                if not path.suffix and path not in self._behind:
                    behind = path.with_suffix(_BEHIND)
                    path.rename(behind)
                    self._behind[path] = UnixProxy(behind)
            for path in self._behind.keys() - self._listening if self._shown else ():
                await self._open.enter_async_context(self._behind[path].listening(path))
                self._listening.add(path)
