"""The graph under test: two of each process, NATS, and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from auricle.config.devices import EngineName
from auricle_testing.call_sockets import Sockets
from auricle_testing.discovery_records import Records
from auricle_testing.faulty_proxy import Proxy, UnixProxy
from auricle_testing.launcher import Launcher
from auricle_testing.server import READY_SECONDS, Server, serving
from auricle_testing.services import Nats
from benchmarks.faults import hooks
from benchmarks.faults.door import Door
from benchmarks.faults.kinds import ENCODE, FRONTEND, PD, PROCESSOR

_POLL_SECONDS = 0.3
_REPLICAS = {ENCODE: 2, PD: 2, PROCESSOR: 2, FRONTEND: 2}


@dataclass
class Graph:
    """A running graph; all that it writes is below `folder`, which has its TMPDIR in `tmp`."""

    server: Server
    nats: Nats
    folder: Path
    orders: Path
    launcher: Launcher
    records: Records
    sockets: Sockets
    # By component and instance: the proxy of the calls to it, if they have one.
    between: dict[tuple[str, str], Proxy] = field(default_factory=dict)
    # Held by a fault that writes discovery records or fills the disk, so that only one does.
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _proxies: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @contextlib.asynccontextmanager
    async def proxied(self) -> AsyncIterator[None]:
        """Open the proxies until the block ends, and wait until all replicas are ready.

        Calls use the request plane until `sockets` are visible.
        """
        async with self.sockets.taken(), self._proxies:
            await asyncio.gather(*(self.whole(component) for component in _REPLICAS))
            yield

    async def door(self, first: int) -> Door:
        """Open a door whose clients begin at frontend number `first`, counted from 0."""
        names = [f"{FRONTEND}-{number}" for number in range(1, _REPLICAS[FRONTEND] + 1)]
        first %= len(names)
        door = Door(self.server, names[first:] + names[:first])
        return await self._proxies.enter_async_context(door.open())

    async def whole(self, component: str) -> None:
        """Wait until all replicas of a component are ready. Raises AssertionError after 300 s."""
        wanted = _REPLICAS[component]
        await until(lambda: self.launcher.settled(component, wanted), READY_SECONDS)

    async def route(self, component: str) -> list[Proxy]:
        """Route requests to each replica of a component through a proxy; return the proxies."""
        async with self.writing:
            for instance, (host, port) in self.records.addresses(component).items():
                if (component, instance) not in self.between:
                    proxy = Proxy(host, port)
                    own = await self._proxies.enter_async_context(proxy.listening())
                    self.records.move(component, instance, own)
                    self.between[component, instance] = proxy
        present = self.records.addresses(component)
        return [p for (c, i), p in self.between.items() if c == component and i in present]

    def local(self, component: str) -> list[UnixProxy]:
        """Return the proxies before the sockets of a component's replicas."""
        present = map(self.sockets.proxy, self.records.addresses(component))
        return [proxy for proxy in present if proxy is not None]


@contextlib.contextmanager
def running(folder: Path, config: str, engine: EngineName | None) -> Iterator[Graph]:
    """Start the graph with the settings in `config`, with another engine if one is given.

    Fails if a process or a discovery record of it is left when it has ended. All files of it lie
    below `folder`.
    """
    temporary, discovery = folder / "tmp", folder / "discovery"
    temporary.mkdir()
    discovery.mkdir(mode=0o700)
    nats = Nats(folder / "nats")
    nats.start()
    # Commands to processes lie outside of `folder`, because they must also work on a full disk.
    with contextlib.ExitStack() as stack:
        stack.callback(nats.end, signal.SIGKILL)
        orders = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orders-")))
        with serving(
            *(f"--{name}.replicas={count}" for name, count in _REPLICAS.items()),
            f"--Common.nats_server={nats.address}",
            *([f"--PdWorker.engine={engine}"] if engine else []),
            "--Common.load_report_seconds=0.5",
            "--Common.liveness_seconds=8",
            "--Frontend.drain_seconds=20",
            environment={"TMPDIR": str(temporary)} | hooks.environment(orders),
            config=config,
            discovery=discovery,
        ) as server:
            records = Records(server.discovery)
            sockets = Sockets(server.discovery)
            yield Graph(server, nats, folder, orders, Launcher(server), records, sockets)


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for the condition, which a thread checks so that sessions on this loop continue. Raises
    AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, f"the graph was not whole within {seconds:g} s"
        await asyncio.sleep(_POLL_SECONDS)
