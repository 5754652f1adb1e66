"""An instance that lost its connections is used again as soon as it is needed and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from auricle.core.errors import AuricleError, WorkerUnavailable
from auricle.dynamo.remote import QUARANTINE_SECONDS, Quarantine, RemoteEndpoint
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer
from auricle.dynamo.wire import to_wire
from auricle.protocol.control import Alive, AskAlive

pytestmark = pytest.mark.unit
DEADLINE = 0.5  # of the calls that get no answer
LONG = 60.0


def test_an_instance_is_left_out_for_a_while_and_then_free() -> None:
    quarantine = Quarantine()
    quarantine.add(1, now=0.0)
    assert quarantine.free([1, 2], now=1.0) == [2]
    assert quarantine.free([1, 2], now=QUARANTINE_SECONDS) == [1, 2]


def test_one_that_answers_is_free_at_once() -> None:
    quarantine = Quarantine()
    quarantine.add(1, now=0.0)
    quarantine.release(1)
    assert quarantine.free([1], now=0.1) == [1]


def test_however_many_wait_an_instance_is_asked_once_a_second() -> None:
    quarantine = Quarantine()
    quarantine.add(1, now=0.0)
    assert quarantine.to_ask([1, 2], now=0.1) == [1]
    assert quarantine.to_ask([1, 2], now=0.2) == []
    assert quarantine.to_ask([1, 2], now=1.2) == [1]


class Network:
    """Replaces Dynamo's endpoints of two workers.

    A connection to a worker in `cut` fails once; a connection to a worker in `dead` always fails.
    """

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self.dead: set[int] = set()
        self.asked: list[int] = []

    async def client(self) -> Network:
        return self

    def instance_ids(self) -> list[int]:
        return [1, 2]

    async def direct(self, _wire: Any, instance: int, **_: Any) -> AsyncIterator[Any]:
        self.asked.append(instance)
        if instance in self.dead or instance in self.cut:
            self.cut.discard(instance)
            raise RuntimeError("Unavailable: the connection was reset")
        return self._answer()

    async def _answer(self) -> AsyncIterator[Any]:
        yield to_wire(Alive(0.0, ""))


@pytest.fixture
def workers() -> tuple[Network, Network, RemoteEndpoint]:
    """The called endpoint, the probed endpoint, and the caller's endpoint."""
    served, alive = Network(), Network()
    sealer = Signer(Secrets(None, ""))
    asking = RemoteEndpoint(alive, "auricle.worker.alive", sealer)
    return served, alive, RemoteEndpoint(served, "auricle.worker.work", sealer, asking)


async def lost(endpoint: RemoteEndpoint, *instances: int) -> None:
    """Calls that fail."""
    for instance in instances:
        with pytest.raises(WorkerUnavailable):
            await endpoint.call(AskAlive(), Alive, instance, 1.0)


Workers = tuple[Network, Network, RemoteEndpoint]


async def test_a_worker_whose_connection_was_lost_is_left_while_there_is_another(
    workers: Workers,
) -> None:
    served, alive, endpoint = workers
    served.cut = {1}
    await lost(endpoint, 1)
    assert await endpoint.usable(LONG) == [2]
    assert alive.asked == []


async def test_if_all_connections_were_lost_workers_that_answer_are_called_at_once(
    workers: Workers,
) -> None:
    served, alive, endpoint = workers
    served.cut, alive.dead = {1, 2}, {2}
    await lost(endpoint, 1, 2)
    assert await endpoint.usable(30.0) == [1]
    await endpoint.call(AskAlive(), Alive, 1, 1.0)


async def test_a_worker_that_answers_again_is_called_rather_than_one_to_avoid(
    workers: Workers,
) -> None:
    served, _, endpoint = workers
    served.cut = {1}
    await lost(endpoint, 1)
    assert await endpoint.usable(LONG, frozenset({2})) == [1]


async def test_a_worker_to_avoid_is_called_if_the_others_are_dead(workers: Workers) -> None:
    served, alive, endpoint = workers
    served.dead = alive.dead = {1}
    await lost(endpoint, 1)
    assert await endpoint.usable(LONG, frozenset({2})) == [2]


async def test_a_worker_that_may_hang_is_called_rather_than_one_to_avoid(workers: Workers) -> None:
    _, _, endpoint = workers
    endpoint.suspect(1)
    assert await endpoint.usable(LONG, frozenset({2})) == [1]


async def test_dead_workers_are_not_called(workers: Workers) -> None:
    served, alive, endpoint = workers
    served.dead = alive.dead = {1, 2}
    await lost(endpoint, 1, 2)
    with pytest.raises(WorkerUnavailable, match="was running for"):
        await endpoint.usable(DEADLINE)


async def test_sessions_that_wait_ask_together(workers: Workers) -> None:
    served, alive, endpoint = workers
    served.dead = alive.dead = {1, 2}
    await lost(endpoint, 1, 2)
    waiting = [endpoint.usable(DEADLINE) for _ in range(50)]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, AuricleError) for one in found)
    assert sorted(alive.asked) == [1, 2]
