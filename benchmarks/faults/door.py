"""The proxies between one client and the frontends, and the frontends' current addresses."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Sequence

from auricle_testing.faulty_proxy import Proxy
from auricle_testing.server import Server


class _ToFrontend(Proxy):
    """Forwards connections to a frontend by name, because its port changes with each start."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__("", 0)
        self._server = server
        self._name = name

    def address(self) -> tuple[str, int]:
        return listening_at(self._name, self._server.log)


class Door:
    """The proxies of one client at a time, which tries the frontends in the order of `urls`."""

    def __init__(self, server: Server, names: Sequence[str]) -> None:
        self.proxies: list[Proxy] = [_ToFrontend(server, name) for name in names]
        self.urls: list[str] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Door]:
        """Accept connections until the block ends."""
        async with contextlib.AsyncExitStack() as stack:
            for proxy in self.proxies:
                port = await stack.enter_async_context(proxy.listening())
                self.urls.append(f"http://127.0.0.1:{port}")
            yield self

    @property
    def in_use(self) -> Proxy:
        """The proxy of the client's connection, which is the newest one."""
        return max(self.proxies, key=lambda proxy: proxy.connected_at)


def listening_at(name: str, log: Sequence[str]) -> tuple[str, int]:
    """Return the latest address that a process logged. Raises ConnectionError if it logged none."""
    pattern = re.compile(rf"{re.escape(name)}\s+listening at http://([^:]+):(\d+)")
    for line in reversed(log):
        if found := pattern.search(line):
            return found[1], int(found[2])
    raise ConnectionRefusedError(f"{name} does not listen yet")
