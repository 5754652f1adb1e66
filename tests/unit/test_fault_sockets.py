"""The fault suite takes local calls' sockets away, and puts proxies before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from auricle.runtime.local.connection import LocalCalls
from auricle.runtime.local.metrics import LocalMetrics
from auricle.runtime.local.server import LocalServer
from auricle.runtime.local.sockets import socket_path
from auricle.runtime.network import CALL_SOCKETS
from auricle.tasks import TaskOwner
from benchmarks.faults.sockets import Sockets
from tests.server import eventually

pytestmark = pytest.mark.unit
LONG = 30.0


class Machine:
    """Processes that say `hello` to whoever calls them, by a discovery directory."""

    def __init__(self, discovery: Path) -> None:
        self.sockets = Sockets(discovery)
        self._directory = discovery / CALL_SOCKETS
        self.calls = LocalCalls(self._directory)
        self._servers: list[LocalServer] = []

    async def start(self, instance: int) -> None:
        path = socket_path(self._directory, instance)
        metrics = LocalMetrics(CollectorRegistry())
        self._servers.append(LocalServer(path, {"greet": _greet}, metrics, TaskOwner()))
        await self._servers[-1].start()

    async def greets(self, instance: int) -> bool:
        """Whether it is called over its socket. Raises ConnectionError if that is lost."""
        connection = await self.calls.to(instance)
        if connection is None:
            return False
        call = await connection.begin("greet", b"")
        return [reply async for reply in call] == [{"packed": b"hello"}]

    async def close(self) -> None:
        self.calls.close()
        for server in self._servers:
            await server.close()


async def _greet(*_: object) -> AsyncGenerator[dict[str, bytes], None]:
    yield {"packed": b"hello"}


@asynccontextmanager
async def running(discovery: Path) -> AsyncIterator[Machine]:
    machine = Machine(discovery)
    async with asyncio.timeout(LONG):
        try:
            await machine.start(7)
            yield machine
        finally:
            await machine.close()


async def test_processes_have_no_socket_until_they_are_shown_with_a_proxy_before_each(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as machine:
        async with machine.sockets.taken():
            assert not await machine.greets(7)
            await machine.start(8)  # this one comes later
            await eventually(lambda: machine.sockets.proxy("8") is not None, seconds=LONG)
            assert not await machine.greets(8)
            await machine.sockets.show()
            for instance in (7, 8):
                assert await machine.greets(instance)
                proxy = machine.sockets.proxy(f"{instance:x}")
                assert proxy is not None and proxy.bytes_passed > 0
            assert machine.sockets.proxy("9") is None
            passed = await machine.calls.to(7)
        assert passed is not None
        await eventually(lambda: passed.lost, seconds=LONG)
        left = {path.name for path in (tmp_path / CALL_SOCKETS).iterdir()}
        assert left == {socket_path(tmp_path, instance).name for instance in (7, 8)}
        assert await machine.greets(7)  # directly


async def test_one_that_comes_once_they_are_shown_has_a_proxy_too(tmp_path: Path) -> None:
    async with running(tmp_path) as machine, machine.sockets.taken():
        await machine.sockets.show()
        await machine.start(8)
        await eventually(lambda: machine.sockets.proxy("8") is not None, seconds=LONG)
        assert await machine.greets(8)
        proxy = machine.sockets.proxy("8")
        assert proxy is not None and proxy.connections_made == 1


async def test_a_cut_ends_calls_and_the_next_one_is_made_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as machine, machine.sockets.taken():
        await machine.sockets.show()
        assert await machine.greets(7)
        proxy = machine.sockets.proxy("7")
        assert proxy is not None
        proxy.stall()
        calling = asyncio.create_task(machine.greets(7))
        _, waiting = await asyncio.wait({calling}, timeout=0.1)
        assert waiting
        proxy.cut()
        proxy.go_on()
        with pytest.raises(ConnectionError):
            await calling
        assert await machine.greets(7)
